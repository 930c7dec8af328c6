"""Rows beyond one machine: lazy results on Dask collections, a fit on a sample of them, and folders of files.

Imports the estimator, `blocks`, `model_file` and `tables`. Needs the extra `dask`.
"""

from knet.dask.collections import (
    drift,
    fit,
    label,
    predict,
    predict_proba,
    refine,
    sample,
    score_samples,
    summarize,
    transform,
)

__all__ = [
    "drift",
    "fit",
    "label",
    "predict",
    "predict_proba",
    "refine",
    "sample",
    "score_samples",
    "summarize",
    "transform",
]
