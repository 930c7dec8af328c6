"""Table files: reading, writing, files that appear whole or not at all, and the recipe that turns columns into numbers.

Imports nothing else of knet; the modules that need Arrow import it themselves.
"""
