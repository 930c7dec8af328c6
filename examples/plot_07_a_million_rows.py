"""
A million rows
==============

*Does it work for large data?* Training uses a sample of the rows, and labels are one pass through a small
network, so that time and memory grow linearly and slowly.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from knet import KNet
from knet.datasets import make_spirals
from knet.metrics import nmi

# %%
# Three spirals and eight columns of noise: a million rows of ten columns, in random order.

X, y = make_spirals(1_000_000, random_state=0)
rng = np.random.default_rng(0)
X = np.hstack([X, rng.normal(0, 0.02, (len(X), 8))]).astype(np.float32)
order = rng.permutation(len(X))
X, y = X[order], y[order]

started = time.perf_counter()
model = KNet(n_clusters=3, scale="none", random_state=0).fit(X)
print(
    f"fit and labels of {len(X):,} rows: {time.perf_counter() - started:.1f} s, trained on {model.n_train_:,} of them"
)
print(f"agreement with the true arms (NMI): {nmi(y, model.labels_):.3f}")

# %%
# Labels of new rows: the time is proportional to the number of rows.

sizes = [10_000, 30_000, 100_000, 300_000, 1_000_000]
seconds = []
for size in sizes:
    started = time.perf_counter()
    model.predict(X[:size])
    seconds.append(time.perf_counter() - started)

figure, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.loglog(sizes, seconds, "o-", color="#0072B2")
ax.set(xlabel="rows", ylabel="seconds", title=f"predict: {sizes[-1] / seconds[-1] / 1e6:.1f} million rows a second")
ax.grid(alpha=0.3)
plt.show()

# %%
# For more rows than memory holds, ``fit`` and ``predict`` accept ``numpy.memmap`` files and Dask collections, and
# the command ``knet predict`` streams files.
