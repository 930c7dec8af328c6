"""Table files: reading, writing (a file is written completely or not at all), and converting columns to numbers.

Imports nothing else of knet; `whole_files` and `terminal` do not need Arrow.
"""
