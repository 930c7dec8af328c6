"""
New rows tomorrow
=================

*How do I label rows that arrive later, and notice rows that are unlike the training data?* Save the model, load
it, and let it reject unfamiliar rows.
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
labels = model.predict(rows, reject=0.01)

# %%
# With ``reject=0.01``, rows that are less familiar than 99 % of the training rows get the label -1.
# ``score_samples`` has the familiarity itself.

unfamiliar = labels == -1
print(f"unfamiliar: {unfamiliar[:600].mean():.0%} of the usual rows, {unfamiliar[600:].mean():.0%} of the strange ones")

figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
ax.scatter(*X.T, s=3, color="lightgrey", label="training rows")
for cluster in range(3):
    ax.scatter(*rows[labels == cluster].T, s=12, color=plots.color(cluster), label=f"cluster {cluster}")
ax.scatter(*rows[unfamiliar].T, s=30, marker="x", color="crimson", label="unfamiliar rows")
ax.set_aspect("equal")
figure.legend(loc="outside right upper")
plt.show()
