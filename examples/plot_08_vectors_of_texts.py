"""
Vectors of texts
================

*How do I cluster texts?* Turn them into vectors first. Here these are weighted word counts, which need no model
to download; vectors of a language model are used in the same way.
"""

import inspect

import matplotlib.axes
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.signal
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from knet import KNet, plots
from knet.metrics import nmi

# %%
# Real texts that are at hand: what four libraries write about their functions.

libraries = {
    "pandas": pd.DataFrame,
    "matplotlib": matplotlib.axes.Axes,
    "torch": torch.nn,
    "scipy": scipy.signal,
}
texts, origin = [], []
for number, owner in enumerate(libraries.values()):
    public = [getattr(owner, name, None) for name in dir(owner) if not name.startswith("_")]
    found = [text for item in public if callable(item) and len(text := inspect.getdoc(item) or "") > 300]
    texts += found
    origin += [number] * len(found)
origin = np.array(origin)
print(len(texts), "texts, for example:", texts[0].splitlines()[0])

# %%
# Weighted word counts are a sparse matrix, which is used as it is. ``metric="cosine"`` compares directions, so
# that long and short texts are treated in the same way; it is the usual choice for vectors of a language model,
# too.

words = TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.5, stop_words="english")
X = words.fit_transform(texts)
model = KNet(n_clusters=4, metric="cosine", random_state=0).fit(X)
print(f"{X.shape[1]} words; agreement with the libraries (NMI): {nmi(origin, model.labels_):.2f}")

# %%
# The words with the largest mean weight describe each cluster.

names = words.get_feature_names_out()
for cluster in range(4):
    weights = np.asarray(X[model.labels_ == cluster].mean(axis=0)).ravel()
    print(f"cluster {cluster}:", ", ".join(names[weights.argsort()[::-1][:6]]))

# %%
# How many texts of each library are in each cluster.

counts = np.array([np.bincount(origin[model.labels_ == cluster], minlength=4) for cluster in range(4)])
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
left = np.zeros(4)
for number, name in enumerate(libraries):
    ax.barh(range(4), counts[:, number], left=left, label=name, color=plots.color(number))
    left += counts[:, number]
ax.set(yticks=range(4), yticklabels=[f"cluster {cluster}" for cluster in range(4)], xlabel="texts")
ax.invert_yaxis()
figure.legend(loc="outside right upper")
plt.show()
