"""What a fit leaves behind: labels rows, says how sure it is, is stored in a file and exported.

`summary` is the step of a fit that learns it. `predictor` labels rows, `certainty` says how sure and how familiar they
are, `file` saves and loads, `light` reads a file without torch and scikit-learn, `blocks` labels rows on workers.

Imports `advanced`, `arrays`, `exceptions`, `files`, `parameters`, `prepare`, `rows`, `start`, `threads` and `train`;
`file`, `onnx` and `blocks`, which make or take a KNet, also import `estimator`.
"""
