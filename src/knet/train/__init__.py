"""From a start to a trained encoder: psi follows the start, then Algorithm 1 of the paper runs from there.

`training` is the step of a fit. `algorithm_1` is the loop as the paper prints it, with the theta-step in `theta_step`
and the U-steps in `u_steps`, on the operator of `laplacians`. All of it is NumPy; only
a user's own encoder needs torch, in `own_encoder`.

Imports `advanced`, `arrays`, `exceptions`, `metrics`, `prepare`, `start` and `threads`.
"""
