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
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

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
# Word counts become vectors of 20 columns and unit length.

vectors = make_pipeline(
    TfidfVectorizer(sublinear_tf=True, min_df=3, max_df=0.5, stop_words="english"),
    TruncatedSVD(20, random_state=0),
    Normalizer(),
)
X = vectors.fit_transform(texts)
model = KNet(n_clusters=4, random_state=0).fit(X)
print(f"agreement with the libraries (NMI): {nmi(origin, model.labels_):.2f}")

# %%
# The most typical text of each cluster is the one whose score is the highest.

scores = model.score_samples(X)
for cluster in range(4):
    rows = np.flatnonzero(model.labels_ == cluster)
    typical = texts[rows[scores[rows].argmax()]]
    print(f"cluster {cluster}, {len(rows)} texts, typical: {typical.splitlines()[0]}")

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
