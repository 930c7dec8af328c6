"""The command `knet`: one module per command, over the public functions of the package.

May import everything; imports nothing heavy before the arguments of a command have been checked.
"""
