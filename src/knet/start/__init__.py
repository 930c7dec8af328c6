"""The start of a fit: many methods propose partitions of the rows, and a rule picks one without any known label.

`choice` is the step of a fit, `candidates` has the methods, `judge` the rule, `caveats` what to tell the user.

Imports `arrays`, `exceptions`, `metrics`, `prepare`, `rows` and `threads`.
"""
