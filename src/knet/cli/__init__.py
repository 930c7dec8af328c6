"""The command `knet`: one module per command, over the public functions of the package.

May import everything. A module that is loaded for `knet --help` imports nothing heavy at its top: Arrow, torch and
scikit-learn are imported inside the function that needs them.
"""
