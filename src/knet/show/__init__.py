"""Pictures of a model with matplotlib, and the report on a model and its rows as one offline HTML page.

Imports `arrays`, `estimator`, `explore`, `files`, `metrics`, `model`, `rows`, `start` and `train`.
"""
