"""
What makes each cluster?
========================

*How do I describe the clusters to somebody else?* ``model.explain`` finds a short rule for each cluster, in the
units of the data.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from knet import KNet, plots

# %%
# Chemical measurements of 178 wines.

X = load_wine(as_frame=True).data
model = KNet(n_clusters=3, random_state=0).fit(X)
found = model.explain(X)
print(found)

# %%
# ``covers`` is the share of the cluster's rows that satisfy the rule; ``purity`` is the share of the rows with
# the rule that belong to the cluster. The picture shows what each column adds to the probability of a row's own
# cluster, as a mean over its rows.

figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
plots.explanation(model, X, ax=ax)
plt.show()

# %%
# The first rule as data, for a filter or a report of your own.

for condition in found.rules[0].conditions:
    print(condition)
