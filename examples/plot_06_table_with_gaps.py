"""
A CSV with gaps and categories
==============================

*My table has missing values, text columns and dates. How do I cluster it?* :class:`knet.tables.Recipe` turns
the columns into numbers, and the model stores it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from knet import KNet, plots
from knet.metrics import nmi
from knet.tables import Recipe

# %%
# Orders of three kinds of customers, as such a table often looks: an identifier, a category, a date, and empty
# cells.

rng = np.random.default_rng(0)
kind = rng.integers(3, size=400)
table = pd.DataFrame(
    {
        "customer": [f"C{number:04d}" for number in range(400)],
        "spent": np.array([20.0, 90.0, 60.0])[kind] * rng.lognormal(0, 0.2, 400),
        "visits": np.array([12.0, 3.0, 8.0])[kind] + rng.normal(0, 1, 400),
        "channel": np.where(rng.random(400) < 0.9, np.array(["web", "shop", "phone"])[kind], "web"),
        "first_order": pd.Timestamp("2024-01-01") + pd.to_timedelta(100 * kind + rng.integers(60, size=400), unit="D"),
    }
)
table.loc[rng.choice(400, 30, replace=False), "visits"] = np.nan
table.loc[rng.choice(400, 20, replace=False), "spent"] = np.nan
print(table.head().to_string(index=False))

# %%
# Missing values stay missing, categories become 0/1 columns that count together as one column, dates become days.
# The identifier is left out.

recipe = Recipe(columns=list(table.columns[1:]), one_hot=True, dates=True).set_output(transform="pandas")
pipeline = make_pipeline(recipe, KNet(n_clusters=3, random_state=0)).fit(table)
model = pipeline[-1]
print("columns:", list(recipe.get_feature_names_out()))
print(f"agreement with the kinds of customers (NMI): {nmi(kind, model.labels_):.2f}")

# %%
# What distinguishes the clusters: the median of each column, in standard deviations from the median of all rows.

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
plots.profiles(model, pipeline[:-1].transform(table), ax=ax)
plt.show()

# %%
# Saved with its recipe, the model labels files: ``knet predict customers.safetensors new.csv -o labels.csv``.

model.save(Path(tempfile.mkdtemp()) / "customers.safetensors")
