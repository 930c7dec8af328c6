"""
New rows tomorrow
=================

*How do I label rows that arrive later, and notice rows that are unlike the training data?* Save the model, load
it, and look at the scores.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from knet import KNet, load, plots
from knet.datasets import make_spirals

# %%
# Today: fit and save. The file has numbers and JSON, no pickle, so that loading it runs no code.

X, y = make_spirals(3000, random_state=0)
path = Path(tempfile.mkdtemp()) / "spirals.safetensors"
KNet(n_clusters=3, random_state=0).fit(X).save(path)
print(f"{path.stat().st_size / 1000:.0f} kB")

# %%
# Tomorrow: load and label. Some of the new rows come from somewhere else.

model = load(path)
X_new, _ = make_spirals(600, random_state=1)
strange = np.random.default_rng(1).uniform(-2.4, 2.4, (60, 2))
rows = np.vstack([X_new, strange])
labels, scores = model.predict(rows), model.score_samples(rows)

# %%
# Every row gets a label, the strange ones too. The score says how familiar a row is: compare it with the scores
# of the training rows. Here rows below the lowest percent of them are marked.

limit = np.quantile(model.score_samples(X), 0.01)
unfamiliar = scores < limit
print(f"unfamiliar: {unfamiliar[:600].mean():.0%} of the usual rows, {unfamiliar[600:].mean():.0%} of the strange ones")

figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
ax.scatter(*X.T, s=3, color="lightgrey", label="training rows")
for cluster in range(3):
    ax.scatter(*rows[~unfamiliar & (labels == cluster)].T, s=12, color=plots.color(cluster), label=f"cluster {cluster}")
ax.scatter(*rows[unfamiliar].T, s=30, marker="x", color="crimson", label="unfamiliar rows")
ax.set_aspect("equal")
figure.legend(loc="outside right upper")
plt.show()
