"""The only door for rows: arrays, lists, DataFrames, Arrow tables, tensors, sparse matrices and columns of vectors.

`kinds` recognises them, by their methods: no library of tables is imported. `numbers` turns them into checked arrays,
`dense` reads them in blocks, and `weights` says how often each row counts.

Imports `arrays` and `exceptions`. Needs NumPy only.
"""
