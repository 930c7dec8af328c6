"""The pictures of the guide: `python -m benchmarks.pictures [NAME ...] [--to docs/images]`.

Each function draws one picture from a fit, and the page that shows it has the same code or names the data. Labels that
come with a data set are drawn for the reader and never given to a fit, unless the picture is about known labels.
"""

import argparse
import io
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_blobs, make_moons

from knet import Advanced, KNet, compare, plots, scan
from knet.datasets import make_spirals
from knet.exceptions import KNetDataWarning
from knet.metrics import nmi
from knet.start.candidates import Pool
from knet.start.choice import choose_from
from knet.start.judge import Judge
from knet.threads import one_blas_thread

SHOWN = ("k-means", "full mixture from k-means", "genie 0.3", "graph 10")  # candidates of which readers know the names


def panels(n_panels, *, width=3.1, height=3.0, rows=1):
    """Return a figure and its axes, side by side."""
    figure = Figure(figsize=(width * n_panels / rows, height * rows), layout="constrained")
    return figure, np.atleast_1d(figure.subplots(rows, n_panels // rows)).ravel()


def draw(ax, X, labels, title, *, size=6):
    """Draw rows of two columns in the colours of their labels; rows with the label -1 are grey crosses."""
    for cluster in np.unique(labels):
        own = np.asarray(labels) == cluster
        style = {"color": "0.6", "marker": "x"} if cluster < 0 else {"color": plots.color(int(cluster))}
        ax.scatter(*X[own].T, s=size, linewidths=0.8 if cluster < 0 else 0, **style)
    ax.set_title(title, fontsize=9, loc="left")
    ax.set_xticks([])
    ax.set_yticks([])


def like(labels, y):
    """Return labels numbered like the groups y that they share most rows with, so that panels have the same colours."""
    counts = np.array([[((labels == c) & (y == g)).sum() for g in np.unique(y)] for c in np.unique(labels)])
    taken, names = set(), {}
    for cluster in counts.max(1).argsort()[::-1]:
        free = [g for g in counts[cluster].argsort()[::-1] if g not in taken]
        names[cluster] = int(free[0]) if free else len(taken)
        taken.add(names[cluster])
    return np.array([names[c] for c in np.unique(labels, return_inverse=True)[1]])


def two_moons_and_a_ball():
    """Return rows of two columns in different units, and their three groups."""
    moons, y = make_moons(700, noise=0.09, random_state=0)
    ball, _ = make_blobs(250, centers=[(2.7, 1.0)], cluster_std=0.22, random_state=0)
    return np.vstack([moons, ball]) * [1, 40], np.append(y, np.full(250, 2))


def how_fit():
    """Return the rows of "How it works", their groups, and the model."""
    X, y = two_moons_and_a_ball()
    return X, y, KNet(random_state=0, advanced=Advanced(keep_embeddings=True)).fit(X)


def how_prepare():
    """Draw rows before and after the preparation, both with one unit of length."""
    X, _, model = how_fit()
    figure, axes = panels(2)
    for ax, rows, title in zip(
        axes, (X, model.predictor_.preparation(X)), ("rows as they are", "after preparation"), strict=True
    ):
        ax.scatter(*rows.T, s=5, color="0.35", linewidths=0)
        ax.set_aspect("equal", "datalim")
        ax.set_title(title, fontsize=9, loc="left")
        ax.tick_params(labelsize=7)
    return figure


def how_candidates():
    """Draw four of the partitions that a fit compares, with what the judge measures."""
    X, y, model = how_fit()
    Z = model.predictor_.preparation(X)
    with one_blas_thread():
        pool = Pool(Z, [model.n_clusters_], 0, shares_unit=False)
        choice = choose_from(pool, Judge(Z, pool.near, shares_unit=False), model.n_clusters_)
    found = {
        str(row["method"]): (row, labels) for row, labels in zip(choice.considered, choice.partitions, strict=True)
    }
    figure, axes = panels(4, width=3.1, height=2.7, rows=2)
    for ax, method in zip(axes, SHOWN, strict=True):
        row, labels = found[method]
        chosen = " (chosen)" if np.array_equal(labels, choice.labels) else ""
        draw(ax, Z, like(labels, y), f"{method}{chosen}\nconductance {row['conductance']:.3f}", size=4)
    return figure


def how_psi():
    """Draw the embedding before training, after following, after Algorithm 1, and the learned kernel."""
    X, _, model = how_fit()
    figure, axes = panels(4, width=3.1, height=2.9, rows=2)
    for ax, number in zip(axes, (0, 1, -1), strict=False):
        plots.iteration(model, ax=ax, number=number)
    plots.learned_kernel(model, X, ax=axes[3], max_rows=100)
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])
    return figure


def how_certainty():
    """Draw the probability of the labels over the plane, and what reject=0.02 leaves without a label."""
    X, _, model = how_fit()
    low, high = X.min(0), X.max(0)
    margin = 0.25 * (high - low)
    across, up = np.meshgrid(*np.linspace(low - margin, high + margin, 160).T)
    plane = np.column_stack([across.ravel(), up.ravel()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # most of the plane is unlike the rows: that is what the picture shows
        sure = model.predict_proba(plane).max(1).reshape(across.shape)
        rejected = (model.predict(plane, reject=0.02) == -1).reshape(across.shape)
    figure, axes = panels(2, width=3.7)
    drawn = axes[0].pcolormesh(across, up, sure, cmap="Blues", vmin=0.3, vmax=1, rasterized=True)
    figure.colorbar(drawn, ax=axes[0], shrink=0.8)
    axes[1].contourf(across, up, rejected, levels=[0.5, 1.5], colors=["0.85"])
    for ax, title in zip(axes, ("probability of the label", "grey: no label with reject=0.02"), strict=True):
        draw(ax, X, model.labels_, title, size=3)
    return figure


def parameters_n_clusters():
    """Draw the same rows with several numbers of clusters, and how clear each number is."""
    X, y = two_moons_and_a_ball()
    figure, axes = panels(3)
    for ax, n_clusters in zip(axes, ("auto", 2, 5), strict=True):
        model = KNet(n_clusters, random_state=0).fit(X)
        draw(
            ax, X, like(model.labels_, y), f"n_clusters={n_clusters!r}: {model.n_clusters_}, {model.number_['verdict']}"
        )
    return figure


def parameters_scale():
    """Draw two groups that differ in the column of small numbers, with and without scaling."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = np.column_stack([1.6 + 0.2 * y + rng.normal(0, 0.03, 400), 50_000 + rng.normal(0, 9_000, 400)])
    figure, axes = panels(2)
    for ax, scale in zip(axes, ("auto", "none"), strict=True):
        draw(ax, X, like(KNet(2, scale=scale, random_state=0).fit_predict(X), y), f'scale="{scale}"')
    return figure


def parameters_metric():
    """Draw rows that differ in direction and length, compared by distance and by direction."""
    rng = np.random.default_rng(0)
    angles = np.repeat([0.2, 0.8, 1.4], 150) + rng.normal(0, 0.05, 450)
    X = (
        np.column_stack([np.cos(angles), np.sin(angles)])
        * rng.choice([1, 9], (450, 1))
        * rng.uniform(0.7, 1.3, (450, 1))
    )
    figure, axes = panels(2)
    for ax, metric in zip(axes, ("euclidean", "cosine"), strict=True):
        labels = KNet(3, metric=metric, random_state=0).fit_predict(X)
        draw(ax, X, like(labels, np.repeat([0, 1, 2], 150)), f'metric="{metric}"')
    return figure


def parameters_sigma():
    """Draw three spirals with the default start and with the paper's start from the kernel of the data."""
    X, y = make_spirals(1500, random_state=0)
    figure, axes = panels(2)
    for ax, sigma in zip(axes, ("auto", "median"), strict=True):
        draw(ax, X, like(KNet(3, sigma=sigma, random_state=0).fit_predict(X), y), f'sigma="{sigma}"')
    return figure


def parameters_train_size():
    """Draw three spirals with few and many training rows, which are drawn in black."""
    X, y = make_spirals(3000, random_state=0)
    figure, axes = panels(3)
    for ax, size in zip(axes, (60, 150, 600), strict=True):
        model = KNet(3, train_size=size, random_state=0).fit(X)
        draw(ax, X, like(model.labels_, y), f"train_size={size}: NMI {nmi(y, model.labels_):.2f}", size=3)
        ax.scatter(*X[model.train_indices_].T, s=8, color="black", linewidths=0)
    return figure


def parameters_known():
    """Draw four groups that are to become two: known labels, with a ring, say which two."""
    X, groups = make_blobs(400, centers=[(0, 0), (4, 0), (0, 4), (4, 4)], cluster_std=0.7, random_state=0)
    rows = np.concatenate([np.flatnonzero(groups == group)[:3] for group in range(4)])
    figure, axes = panels(3)
    for ax, (title, sides) in zip(
        axes,
        {"nothing known": None, "known: left, right": groups % 2, "known: above, below": groups // 2}.items(),
        strict=True,
    ):
        known = None if sides is None else np.where(np.isin(np.arange(400), rows), sides, -1)
        draw(ax, X, KNet(2, random_state=0).fit(X, known=known).labels_, title)
        if sides is not None:
            ax.scatter(*X[rows].T, s=45, facecolors="none", edgecolors="black")
    return figure


def first():
    """Draw the wines and their embedding, as on the page on first clusters."""
    X = load_wine(as_frame=True).data
    model = KNet(n_clusters=3, random_state=0).fit(X)
    figure, axes = panels(2, width=4, height=3.6)
    plots.data(model, X, ax=axes[0])
    plots.embedding(model, X, ax=axes[1])
    return figure


def number():
    """Draw the scan of the wines, and the levels of three pairs of groups."""
    rng = np.random.default_rng(0)
    centers = [[0, 0], [2.5, 0], [20, 0], [22.5, 0], [0, 40], [2.5, 40]]
    pairs = np.repeat(centers, 80, axis=0) + rng.normal(0, 0.4, (480, 2))
    figure, axes = panels(2, width=4.4, height=3.6)
    plots.scan(scan(load_wine().data, max_clusters=8, random_state=0), ax=axes[0])
    plots.levels(KNet(6, random_state=0).fit(pairs), ax=axes[1])
    return figure


def certainty():
    """Draw two moons that touch: the probability of each label, and the rows that are left without one."""
    X, _ = make_moons(1000, noise=0.15, random_state=0)
    model = KNet(2, random_state=0).fit(X)
    sure, labels = model.probabilities_, model.predict(X, reject=0.02)
    figure, axes = panels(2, width=4.0)
    order = sure.argsort()[::-1]
    drawn = axes[0].scatter(*X[order].T, s=8, c=sure[order], cmap="RdYlBu", vmin=0.5, vmax=1, linewidths=0)
    axes[0].set(xticks=[], yticks=[])
    axes[0].set_title("probability of the label", fontsize=9, loc="left")
    figure.colorbar(drawn, ax=axes[0], shrink=0.8)
    draw(axes[1], X, labels, f"reject=0.02: {(labels == -1).mean():.0%} of the rows have no label", size=8)
    axes[1].scatter(*X[labels == -1].T, s=18, marker="x", color="crimson", linewidths=1)
    return figure


def explanation():
    """Draw the rules of the wines, and what each column adds to the probability."""
    X = load_wine(as_frame=True).data
    figure, axes = panels(1, width=9, height=4)
    plots.explanation(KNet(n_clusters=3, random_state=0).fit(X), X, ax=axes[0])
    return figure


def embeddings():
    """Draw the most and the least certain images of each cluster of handwritten digits."""
    images = load_digits().data
    model = KNet(random_state=0).fit(images)
    figure, axes = panels(10 * model.n_clusters_, rows=model.n_clusters_, width=0.42, height=0.42)
    for cluster, row in enumerate(axes.reshape(model.n_clusters_, 10)):
        own = np.flatnonzero(model.labels_ == cluster)
        own = own[model.probabilities_[own].argsort(kind="stable")[::-1]]
        for ax, image in zip(row, [*own[:6], *own[-4:]], strict=True):
            ax.imshow(images[image].reshape(8, 8), cmap="Greys")
            ax.set_axis_off()
    return figure


def tables():
    """Draw the profiles of the animals of the page on tables."""
    from knet.tables import Recipe

    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=200)
    columns = {"weight": 40 + 30 * kind + rng.normal(0, 4, 200), "height": 1.1 + 0.6 * kind + rng.normal(0, 0.05, 200)}
    table = pd.DataFrame(columns | {"coat": np.where(kind == 0, "short", "long")})
    table.loc[5, "weight"] = np.nan
    figure, axes = panels(1, width=5.2, height=2.8)
    plots.profiles(KNet(2, random_state=0).fit(Recipe(one_hot=True).fit_transform(table)), table, ax=axes[0])
    return figure


def guidance():
    """Draw which rows went where between the models of January and February of the gallery's last example."""
    january, _ = make_blobs(400, centers=[(0, 0), (8, 0), (0, 8)], random_state=0)
    february = np.vstack([january, make_blobs(120, centers=[(9, 9)], random_state=1)[0]])
    first = KNet(random_state=0).fit(january)
    figure, axes = panels(1, width=6, height=3.2)
    plots.flow(compare(first, first.refit(february), february), ax=axes[0])
    return figure


def case_cancer():
    """Draw the cells of breast tumours: the clusters, the diagnoses, and the probability of the labels."""
    X, y = load_breast_cancer(return_X_y=True)
    model = KNet(2, random_state=0).fit(X)
    flat = model.predictor_.preparation(X)
    flat = (flat - flat.mean(0)) @ np.linalg.svd(flat - flat.mean(0), full_matrices=False)[2][:2].T
    figure, axes = panels(3)
    draw(axes[0], flat, model.labels_, "clusters")
    draw(axes[1], flat, like(y, model.labels_), "diagnoses (not used)")
    order = model.probabilities_.argsort()[::-1]
    drawn = axes[2].scatter(*flat[order].T, s=6, c=model.probabilities_[order], cmap="RdYlBu", vmin=0.5, vmax=1)
    axes[2].set(xticks=[], yticks=[])
    axes[2].set_title("probability of the label", fontsize=9, loc="left")
    figure.colorbar(drawn, ax=axes[2], shrink=0.8)
    return figure


DRAWN = (how_prepare, how_candidates, how_psi, how_certainty, parameters_n_clusters, parameters_scale)
DRAWN += (
    parameters_metric,
    parameters_sigma,
    parameters_train_size,
    parameters_known,
    first,
    number,
    certainty,
    explanation,
)
DRAWN += (embeddings, tables, guidance, case_cancer)
PICTURES = {function.__name__: function for function in DRAWN}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pictures that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PICTURES))
    parser.add_argument("--to", type=Path, default=Path("docs/images"), help="folder")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", KNetDataWarning)
    for name in options.names or PICTURES:
        path = options.to / f"{name}.png"
        buffer = io.BytesIO()
        PICTURES[name]().savefig(buffer, dpi=110)
        Image.open(buffer).convert("RGB").quantize(128).save(path, optimize=True)  # few colours: a third of the size
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
