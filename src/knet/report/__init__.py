"""The report on a model and its data: findings as plain data, the geometry of small charts, and one offline HTML page.

May import the estimator, `inspect`, `stability`, `metrics` and `model_file`; only `page` knows about HTML.
"""

from knet.report.page import report

__all__ = ["report"]
