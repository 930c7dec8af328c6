"""More rows than one machine can store: lazy results on Dask collections, fits on a sample of them, folders of files.

Imports the estimator, `explore`, `files`, `model`, `parameters`, `rows`, `tables`, `threads` and `train`.
Needs the extra `dask`.

The model is one node of the Dask graph: every worker fetches it once, and every task refers to it. If a worker dies,
its blocks are recomputed. Without a cluster, Dask uses threads of this process.

Examples
--------
>>> import dask.array as da
>>> import knet.dask
>>> from knet import KNet
>>> from knet.datasets import make_moon
>>> X, y = make_moon(1000, random_state=0)
>>> many = da.from_array(X, chunks=(250, 2))
>>> model = knet.dask.fit(KNet(n_clusters=2, random_state=0), many, sample_size=300)
>>> knet.dask.predict(model, many).compute().shape
(1000,)
"""

from knet.dask.lazy import label, predict, predict_proba, score_samples, transform
from knet.dask.statistics import drift, summarize
from knet.dask.training import fit, sample

__all__ = ["drift", "fit", "label", "predict", "predict_proba", "sample", "score_samples", "summarize", "transform"]
