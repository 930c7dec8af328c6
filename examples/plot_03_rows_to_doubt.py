"""
Which rows to doubt
===================

*Which labels can I trust?* ``predict_proba`` says how likely each label is right, ``reject`` leaves doubtful
rows without a label, and ``stability`` says whether refits give the same clusters. None of them needs known
labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from knet import KNet, plots
from knet.metrics import accuracy

# %%
# Two moons with so much noise that they touch, and a few rows far away from both.

moons, y = make_moons(1000, noise=0.2, random_state=0)
far = np.random.default_rng(0).uniform([-2.5, -2], [3.5, 2.5], (60, 2))
far = far[(np.abs(far - [0.5, 0.25]) > [2.2, 1.6]).any(axis=1)]
X = np.vstack([moons, far])
model = KNet(n_clusters=2, random_state=0).fit(moons)

# %%
# Doubt is highest where the moons touch. The mean of the probabilities estimates the share of labels that are
# right.

sure = model.predict_proba(moons).max(axis=1)
print(f"right: {accuracy(y, model.labels_):.0%}, mean probability of the label: {sure.mean():.0%}")

# %%
# With ``reject=0.02`` a row gets the label -1 if it is less familiar than 98 % of the training rows, or if its
# label is more likely wrong than right.

labels = model.predict(X, reject=0.02)
rejected = labels == -1
print(f"without a label: {rejected[:1000].mean():.0%} of the moons, {rejected[1000:].mean():.0%} of the far rows")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained")
order = sure.argsort()[::-1]  # doubtful rows last, so that they are drawn on top
drawn = left.scatter(*moons[order].T, s=14, c=sure[order], cmap="RdYlBu", vmin=0.5, vmax=1)
left.set(title="probability of the label", aspect="equal")
figure.colorbar(drawn, ax=left, shrink=0.7)
for cluster in range(2):
    right.scatter(*X[labels == cluster].T, s=10, color=plots.color(cluster), label=f"cluster {cluster}")
right.scatter(*X[rejected].T, s=24, marker="x", color="crimson", label="no label")
right.set(title="with reject=0.02", aspect="equal")
right.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
# Stability asks another question: do refits on other rows and with other seeds find the same clusters?

stability = model.stability(moons, n_refits=5, random_state=0)
print("overlap with the clusters of the refits:", [f"{value:.0%}" for value in stability.clusters])
