"""The report on a model and its data: findings as numbers, small charts, and one offline HTML page.

Imports the estimator, `inspect`, `stability` and `model_file`.
"""

from knet.report.page import report

__all__ = ["report"]
