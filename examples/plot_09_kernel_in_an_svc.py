"""
The learned kernel in an SVC
============================

*I have few labels and many rows without labels. Can the learned kernel help a classifier?* ``model.kernel`` is
a positive semi-definite kernel for any rows, so that an SVC or a Gaussian process can use it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.svm import SVC

from knet import KNet, plots
from knet.datasets import make_spirals

# %%
# 3,000 rows, of which nine have a label: three from each arm.

X, y = make_spirals(3000, random_state=0)
X_test, y_test = make_spirals(3000, random_state=1)
rng = np.random.default_rng(3)
known = np.concatenate([rng.choice(np.flatnonzero(y == arm), 3, replace=False) for arm in range(3)])

# %%
# The kernel is learned from all rows, without labels; the SVC sees the nine labels.

model = KNet(n_clusters=3, random_state=0).fit(X)
classifiers = {
    "RBF kernel": SVC(kernel="rbf"),
    "learned kernel": SVC(kernel=model.kernel),
}
for name, classifier in classifiers.items():
    classifier.fit(X[known], y[known])
    print(f"{name}: {classifier.score(X_test, y_test):.0%} of the test rows are right")

# %%
# The decisions in the plane. The crosses are the nine rows with a label.

grid = np.stack(np.meshgrid(np.linspace(-2.4, 2.4, 160), np.linspace(-2.4, 2.4, 160)), axis=-1).reshape(-1, 2)
figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained", sharey=True)
for ax, (name, classifier) in zip(axes, classifiers.items(), strict=True):
    regions = classifier.predict(grid).reshape(160, 160)
    ax.contourf(
        regions,
        levels=[-0.5, 0.5, 1.5, 2.5],
        extent=(-2.4, 2.4, -2.4, 2.4),
        colors=[plots.color(arm) for arm in range(3)],
        alpha=0.35,
    )
    ax.scatter(*X_test[::5].T, s=3, color="#444444")
    ax.scatter(*X[known].T, marker="X", s=90, color="black", edgecolor="white")
    ax.set(title=f"{name}: {classifier.score(X_test, y_test):.0%}", aspect="equal")
plt.show()
