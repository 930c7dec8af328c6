"""
How many clusters?
==================

*Which number of clusters do my data support?* :func:`knet.scan` compares several numbers. It may also advise
none.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from knet import plots, scan

# %%
# Chemical measurements of 178 wines. The scan clusters random halves of the rows and compares the results
# (*stability*), and it measures how much worse the separation gets with one more cluster (*jump*).

X = load_wine().data
found = scan(X, range(2, 9), random_state=0)
print(found.advice)

# %%
# A number is supported if it has both: stable clusters, and a jump after it. The wines come from three cultivars;
# the scan has not seen that.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
plots.scan(found, ax=ax)
plt.show()

# %%
# If the rows are one cloud without groups, the scan says so, and ``best`` is None.

cloud = np.random.default_rng(0).normal(size=(300, 5))
nothing = scan(cloud, range(2, 6), random_state=0)
print(nothing.best, "-", nothing.advice)
