"""What happens to rows before the encoder gets them: unit length, scaled columns, fewer of many columns.

`training_rows` is the step of a fit; `preparation` is what a model keeps of it and applies to new rows.

Imports `advanced`, `arrays`, `exceptions` and `rows`.
"""
