"""
The paper's spirals
===================

*What does the method do?* Figure 1 of *Deep Kernel Learning for Clustering*: the kernel matrix of the data, and
the learned one.
"""

import matplotlib.pyplot as plt

from knet import Advanced, KNet, plots
from knet.datasets import make_spirals
from knet.metrics import nmi

# %%
# 30,000 rows; the network is trained on one percent of them and labels all.

X, y = make_spirals(30_000, random_state=0)
model = KNet(n_clusters=3, train_size=0.01, random_state=0, advanced=Advanced(keep_embeddings=True)).fit(X)
print(f"trained on {model.n_train_} rows, NMI with the true arms {nmi(y, model.predict(X)):.3f}")

# %%
# Above: the data, and the Gaussian kernel of each pair of rows, ordered by cluster. Below: the embedding, and the
# kernel in it.

figure, axes = plt.subplots(2, 2, figsize=(8.5, 7.5), layout="constrained")
plots.data(model, X, ax=axes[0, 0])
plots.raw_kernel(model, X, ax=axes[0, 1])
plots.embedding(model, X, ax=axes[1, 0])
plots.learned_kernel(model, X, ax=axes[1, 1])
plt.show()

# %%
# How the embedding was learned, from the data (left) to the last stored iteration (right). The paper's own
# settings are ``KNet(n_clusters=3, **knet.presets.paper("spiral2"))``.

stages = model.embeddings_
figure, axes = plt.subplots(1, len(stages), figsize=(3.2 * len(stages), 3.2), layout="constrained", squeeze=False)
for number, (ax, stage) in enumerate(zip(axes[0], stages, strict=True)):
    ax.scatter(stage[:, 0], stage[:, 1], s=8, color=plots.color(0))
    ax.set(title=f"stage {number}", xticks=[], yticks=[])
plt.show()
