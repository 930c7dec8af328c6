"""
How many clusters?
==================

*Which number of clusters do my data support?* :class:`knet.KNet` finds it; :func:`knet.scan` shows why.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from knet import plots, scan

# %%
# Chemical measurements of 178 wines. For each number, the scan measures how much worse the separation gets with one
# cluster more and how well Gaussians describe the groups (*value*), and whether the clusters have borders.

X = load_wine().data
found = scan(X, random_state=0)
print(found.advice)

# %%
# The wines come from three cultivars; the scan has not seen that. Their borders are not sharp.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plots.scan(found, ax=ax)
plt.show()

# %%
# If the rows are one cloud without groups, one cluster is the answer.

cloud = np.random.default_rng(0).normal(size=(300, 5))
print(scan(cloud, random_state=0).advice)
