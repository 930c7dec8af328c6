"""
First clusters
==============

*How do I find groups that are not round?* Give the rows and the number of clusters to :class:`knet.KNet`.
"""

import matplotlib.pyplot as plt

from knet import KNet, plots
from knet.datasets import make_moon

# %%
# Two interleaved parabolas: k-means cuts through both of them, because it draws straight borders.

X, y = make_moon(600, random_state=0)
model = KNet(n_clusters=2, random_state=0).fit(X)
print("rows per cluster:", [int((model.labels_ == cluster).sum()) for cluster in range(2)])

# %%
# knet learns an embedding in which the groups are round. On the left are the data, on the right is the embedding
# of the same rows.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
plots.data(model, X, ax=left)
plots.embedding(model, X, ax=right)
plt.show()

# %%
# The model is an estimator of scikit-learn: ``fit``, ``predict`` and ``transform`` work in a pipeline, and new
# rows get the label of the nearest centre in the embedding.

X_new, y_new = make_moon(10, random_state=1)
print(model.predict(X_new))
