"""
Your own encoder
================

*Can I use a network of my own, for example for images?* Any ``torch.nn.Module`` that maps rows to an embedding
can be the encoder; knet copies and trains it.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from torch import nn

from knet import KNet
from knet.metrics import accuracy

# %%
# Images of handwritten digits, 8 by 8 pixels. The digits 0 to 4 are used.

images, digits = load_digits(n_class=5, return_X_y=True)
X = images / 16

# %%
# A small convolutional network. The rows come as vectors, so it first gives them the shape of images.

torch.manual_seed(0)
encoder = nn.Sequential(
    nn.Unflatten(1, (1, 8, 8)),
    nn.Conv2d(1, 16, kernel_size=3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, kernel_size=3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(32 * 4 * 4, 10),
)
model = KNet(n_clusters=5, encoder=encoder, scale="none", max_iter=5, random_state=0).fit(X)
reference = KMeans(5, n_init=10, random_state=0).fit(X)
print(f"right digits: knet {accuracy(digits, model.labels_):.1%}, k-means {accuracy(digits, reference.labels_):.1%}")

# %%
# The most typical images of each cluster, by their score.

scores = model.score_samples(X)
figure, axes = plt.subplots(5, 10, figsize=(7, 3.6), layout="constrained")
for cluster, row in enumerate(axes):
    members = (model.labels_ == cluster).nonzero()[0]
    typical = members[scores[members].argsort()[::-1][:10]]
    for ax, index in zip(row, typical, strict=True):
        ax.imshow(X[index].reshape(8, 8), cmap="Greys")
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(f"cluster {cluster}", rotation=0, ha="right", va="center")
plt.show()

# %%
# A model with an encoder of your own is loaded with the same module: ``load("model.safetensors",
# encoder=encoder)``. The file has the weights.
