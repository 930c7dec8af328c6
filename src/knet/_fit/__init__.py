"""One fit from validated rows to a trained encoder: settings, plan, start, Algorithm 1, and what is kept of it.

Imports `_math`, `_network`, `predictor` and `exceptions`.
"""
