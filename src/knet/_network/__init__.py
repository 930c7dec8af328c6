"""The encoder psi: its layers, its gradient, Adam, the paper's pre-training, and the scaling of columns before it.

Imports `_math` and `exceptions`.
"""
