"""
First clusters
==============

How do I cluster rows whose groups are not round?
"""

from knet import KNet, plots
from knet.datasets import make_spirals

X, y = make_spirals(1500, random_state=0)
model = KNet(n_clusters=3, random_state=0).fit(X)
plots.data(model, X)
