"""
Every month
===========

*New rows arrive every month. How do clusters keep their meaning?* Refit the model: clusters that match keep their
labels and names, and the changes are told in words.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from knet import KNet, compare, plots
from knet.explore.refit import unfamiliar_groups

# %%
# January: three groups of customers, who get names.

january, _ = make_blobs(400, centers=[(0, 0), (8, 0), (0, 8)], random_state=0)
first = KNet(random_state=0).fit(january)
first.rename({int(first.predict([[0, 0]])[0]): "small", int(first.predict([[8, 0]])[0]): "frequent"})
print(first.names_, first.n_clusters_)

# %%
# February: a new group appears. The model does not know these rows, and says so.

february = np.vstack([january, make_blobs(120, centers=[(9, 9)], random_state=1)[0]])
for group in unfamiliar_groups(first, february):
    print(f"{len(group.rows)} unfamiliar rows around {group.center.round(1)}")
second = first.refit(february)
print(second.changes_)

# %%
# March: the group of frequent customers is gone. Its label is not used again.

march = february[second.predict(february) != second.predict([[8, 0]])[0]]
third = second.refit(march)
print(third.changes_)
print("labels:", sorted(set(third.labels_.tolist())), third.names_)

# %%
# What happened to the customers of February between the first and the second model?

found = compare(first, second, february)
plots.flow(found)
plt.show()
