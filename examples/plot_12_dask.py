"""
Dask: more rows than one machine can hold
=========================================

*My rows are in many files or on a cluster. How do I cluster them?* Give a Dask array or DataFrame to the same
methods: a sample is trained on, and labels are computed block by block, where the rows are.
"""

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from knet import KNet, plots
from knet.datasets import make_spirals
from knet.metrics import nmi

# %%
# A lazy array of 400,000 rows in 16 blocks. With ``dask.dataframe.read_parquet("big/")`` the rest of this page is
# the same.

blocks = [make_spirals(25_000, random_state=seed)[0] for seed in range(16)]
rows = da.concatenate([da.from_array(block, chunks=-1) for block in blocks])
print(rows.shape, rows.numblocks)

# %%
# ``fit`` draws an exact sample of all blocks and trains on it; ``predict`` is lazy.

model = KNet(n_clusters=3, random_state=0).fit(rows)
labels = model.predict(rows)
print(labels)

# %%
# Nothing is computed until it is asked for, and then in parallel.

computed = labels.compute()
truth = np.tile(make_spirals(25_000, random_state=0)[1], 16)
print(f"NMI with the true arms: {nmi(truth, computed):.3f}")

# %%
# The first block, with its labels.

figure, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
for cluster in range(3):
    ax.scatter(
        *blocks[0][computed[:25_000] == cluster][::10].T, s=3, color=plots.color(cluster), label=f"cluster {cluster}"
    )
ax.set_aspect("equal")
ax.legend(markerscale=3)
plt.show()
