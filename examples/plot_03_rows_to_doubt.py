"""
Which rows to doubt
===================

*Which labels can I trust?* Two answers: the probability of each label, and whether refits on other rows and
seeds give the same label.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from knet import KNet

# %%
# Two moons with so much noise that they touch. Some rows could belong to either.

X, y = make_moons(1000, noise=0.2, random_state=0)
model = KNet(n_clusters=2, random_state=0).fit(X)
sure = model.predict_proba(X).max(axis=1)

# %%
# Stability: how many of the refits agree with the label of each row. Each refit sees another half of the rows.

stability = model.stability(X, n_refits=5, random_state=0)
print("overlap with the clusters of the refits:", [f"{value:.0%}" for value in stability.clusters])

# %%
# Doubt is highest between the moons. The rows in dark red are the ones to check by hand, or to leave without a
# label.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
panels = {"probability of the label": sure, "share of refits that agree": stability.rows}
for ax, (title, values) in zip(axes, panels.items(), strict=True):
    order = values.argsort()[::-1]  # doubtful rows last, so that they are drawn on top
    drawn = ax.scatter(*X[order].T, s=14, c=values[order], cmap="RdYlBu", vmin=0.5, vmax=1)
    ax.set(title=title, aspect="equal", xticks=[], yticks=[])
figure.colorbar(drawn, ax=axes, shrink=0.8)
plt.show()
