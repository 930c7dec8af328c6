"""What the report says about a model and its data, as plain data; nothing here knows about HTML."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.cluster import contingency_matrix

from knet._network.mlp import ResidualMLP
from knet.estimator import KNet
from knet.inspect import samples, views
from knet.inspect.samples import Sample
from knet.inspect.views import COLORS
from knet.metrics import accuracy, ari, nmi
from knet.model_file import versions
from knet.report.charts import line_chart, quantized, silhouette_chart
from knet.stability import Stability, agreement

SCATTER_ROWS, MATRIX_ROWS, SILHOUETTE_ROWS, REFIT_ROWS = 3000, 220, 1500, 1000
ROUND_ROWS = 600
PROFILE_COLUMNS, ROW_COLUMNS, HOVER_COLUMNS = 15, 6, 4
TYPICAL_ROWS, UNCERTAIN_ROWS = 2, 10
MAX_NAME = 60


@dataclass(frozen=True)
class Findings:
    """All that the report says, in the order it says it."""

    source: str
    n_rows: int
    n_columns: int
    n_train: int
    n_rounds: int
    rate: str
    verdict: str
    warnings: list[str]
    sizes: list[tuple[int, int, str]]
    data_note: str
    embedding_note: str
    n_points: int
    n_kernel: int
    rounds: list[str]
    charts: list[dict[str, Any]]
    silhouettes: list[dict[str, Any]]
    profiles: list[dict[str, Any]]
    more_columns: int
    row_columns: list[str]
    typical: list[dict[str, Any]]
    uncertain: list[dict[str, Any]]
    agreement: dict[str, Any] | None
    reproduce: str
    versions: dict[str, str]
    colors: tuple[str, ...]
    drawn: dict[str, Any]  # what the page's script draws


def collect(
    model: KNet,
    X: Any,
    *,
    target: ArrayLike | None,
    ids: Sequence[Any] | None,
    source: str,
    command: str | None,
    refits: int,
    seed: int,
) -> Findings:
    """Return all that the report says."""
    rows = samples.sample(model, X, samples.POOL_ROWS, seed)
    memberships = model.predictor_.memberships(rows.X)
    names = [_short(name) for name in samples.column_names(model)]
    _, _, telling = views.profiles(rows.X, rows.labels)
    order = np.argsort(-telling, kind="stable")
    stability = _stability(model, rows, refits, seed)
    silhouettes = rows.thin(SILHOUETTE_ROWS, seed)
    values = [views.silhouettes(points, silhouettes.labels) for points in (silhouettes.scaled, silhouettes.Psi)]
    points = rows.thin(SCATTER_ROWS, seed)
    flat = [views.plane(points.scaled), views.plane(points.Psi)]
    call = (lambda row: str(row)) if ids is None else (lambda row: _short(str(ids[row])))
    drawn = _drawn(model, rows, points, [xy for xy, _ in flat], names, order, call, seed)
    clusters, counts = np.unique(rows.labels, return_counts=True)
    shares = [f"{count / len(rows.labels):.1%}" for count in counts]
    return Findings(
        source=source,
        n_rows=rows.n_rows,
        n_columns=model.n_features_in_,
        n_train=model.n_train_,
        n_rounds=model.n_iter_,
        rate=rows.rate,
        verdict=_verdict(rows, stability, refits, [float(value.mean()) for value in values]),
        warnings=_warnings(model, rows, memberships, stability),
        sizes=list(zip(clusters.tolist(), counts.tolist(), shares, strict=True)),
        data_note=flat[0][1],
        embedding_note=flat[1][1],
        n_points=len(points.rows),
        n_kernel=len(rows.thin(MATRIX_ROWS, seed).rows),
        rounds=drawn["rounds"],
        charts=_charts(model, rows.thin(views.SPECTRUM_ROWS, seed)),
        silhouettes=[
            silhouette_chart(f"In the {space}", own, silhouettes.labels)
            for space, own in zip(("data", "embedding"), values, strict=True)
        ],
        profiles=_profiles(rows, names, order),
        more_columns=max(0, len(order) - PROFILE_COLUMNS),
        row_columns=[names[j] for j in order[:ROW_COLUMNS]],
        typical=_typical(model, rows, order, call),
        uncertain=_uncertain(rows, memberships, order, call),
        agreement=_agreement(rows, target),
        reproduce=_reproduce(model, X, command),
        versions=versions(),
        colors=COLORS,
        drawn=drawn,
    )


def _drawn(
    model: KNet,
    rows: Sample,
    points: Sample,
    flat: list[NDArray[np.floating]],
    names: list[str],
    order: NDArray[np.intp],
    call: Any,
    seed: int,
) -> dict[str, Any]:
    """Return what the page's script draws: points, kernel matrices, rounds; arrays as base64."""
    matrix = rows.thin(MATRIX_ROWS, seed)
    kernels = {
        name: np.round(255 * views.kernel_matrix(own, matrix.labels, model.sigma_)).astype(np.uint8)
        for name, own in (("raw", matrix.scaled), ("learned", matrix.Psi))
    }
    certainty = model.predictor_.memberships(points.X).max(1)
    told = order[:HOVER_COLUMNS]
    rounds, round_labels = _rounds(model, seed)
    return {
        "colors": COLORS,
        "labels": _encoded(points.labels.astype("<u2")),
        "rows": [call(row) for row in points.rows],
        "certainty": [f"{value:.2f}" for value in certainty],
        "hoverNames": [names[j] for j in told],
        "hover": [[f"{value:.4g}" for value in values] for values in points.X[:, told]],
        "views": {name: _encoded(quantized(xy)) for name, xy in zip(("data", "embedding"), flat, strict=True)},
        "kernels": {name: _encoded(K) for name, K in kernels.items()},
        "kernelLabels": _encoded(np.sort(matrix.labels).astype("<u2")),
        "rounds": rounds,
        "roundLabels": round_labels,
    }


def _rounds(model: KNet, seed: int) -> tuple[list[str], str]:
    """Return the embedding after each round, where the model kept them, all through one projection."""
    kept = getattr(model, "rounds_", None)
    if kept is None or not len(kept):
        return [], ""
    embedded = np.asarray(kept, dtype=np.float64)
    embedded = embedded[:, np.random.default_rng(seed).permutation(embedded.shape[1])[:ROUND_ROWS]]
    labels = np.square(embedded[-1][:, None] - model.cluster_centers_).sum(2).argmin(1)
    directions, center, _ = views.plane_map(embedded[-1])
    flat = (embedded - center) @ directions
    flat = flat if flat.shape[2] == 2 else np.concatenate([flat, np.zeros_like(flat)], axis=2)
    return [_encoded(quantized(one)) for one in flat], _encoded(labels.astype("<u2"))


def _stability(model: KNet, rows: Sample, refits: int, seed: int) -> Stability | None:
    """Return how far refits on a sample agree with the model; None where there is nothing to compare."""
    own_network = isinstance(model.predictor_.encoder, ResidualMLP)
    if refits == 0 or model.n_clusters == 1 or not own_network:
        return None
    few = rows.thin(REFIT_ROWS, seed)
    return agreement(model, few.X, few.labels, n_refits=refits, seed=seed)


def _verdict(rows: Sample, stability: Stability | None, refits: int, silhouettes: list[float]) -> str:
    """Return the result in a sentence or two."""
    counts = np.unique(rows.labels, return_counts=True)[1]
    shares = sorted((count / len(rows.labels) for count in counts), reverse=True)
    largest, smallest = f"{shares[0]:.1%}", f"{shares[-1]:.1%}"
    text = f"{len(counts)} clusters, the largest with {largest} of the rows, the smallest with {smallest}."
    if len(counts) == 1:
        text = "One cluster holds all rows."
    if stability is not None:
        overall, plural = stability.overall, "s" if refits > 1 else ""
        words = "stable" if overall >= 0.9 else "fairly stable" if overall >= 0.7 else "not stable"
        text += (
            f" They are {words}: {refits} refit{plural} on other rows and seeds agree to {overall:.2f} (1 is alike)."
        )
    return text + f" Mean silhouette: {silhouettes[0]:.2f} in the data, {silhouettes[1]:.2f} in the embedding."


def _warnings(model: KNet, rows: Sample, memberships: NDArray[np.floating], stability: Stability | None) -> list[str]:
    """Return what a reader should know before believing the clusters."""
    found = []
    change = model.history_[-1]["u_change"] if model.history_ else 0.0
    if model.n_iter_ >= model.max_rounds and change >= model.tol:
        found.append(
            f"Training stopped after {model.n_iter_} rounds while still moving ({change:.2g}). Raise max_rounds."
        )
    clusters, counts = np.unique(rows.labels, return_counts=True)
    if len(clusters) < model.n_clusters:
        found.append(f"Only {len(clusters)} of the {model.n_clusters} clusters asked for hold rows.")
    small = [str(cluster) for cluster, n in zip(clusters, counts, strict=True) if n < 0.01 * len(rows.labels)]
    if small:
        found.append(f"Clusters with less than 1 % of the rows: {', '.join(small)}.")
    doubtful = float((memberships.max(1) < 0.7).mean())
    if doubtful > 0.05:
        found.append(f"{doubtful:.0%} of the rows belong to their cluster with a certainty below 0.7.")
    if stability is not None and stability.overall < 0.7:
        found.append("Other seeds find other clusters: do not build on these before trying other numbers of clusters.")
    elif stability is not None and (stability.clusters < 0.5).any():
        doubted = ", ".join(str(cluster) for cluster in np.flatnonzero(stability.clusters < 0.5))
        found.append(f"Refits keep less than half of these clusters together: {doubted}.")
    return found


def _charts(model: KNet, rows: Sample) -> list[dict[str, Any]]:
    """Return the charts of training, spectrum and choice of sigma."""
    charts, history = [], model.history_
    if history:
        rounds = [row["round"] for row in history]
        series = [("HSIC", rounds, [row["hsic"] for row in history])]
        change = [("change of K_U", rounds, [row["u_change"] for row in history])]
        if any(row["reconstruction"] for row in history):
            change.append(("reconstruction error", rounds, [row["reconstruction"] for row in history]))
        charts.append(line_chart("Objective", series, x_label="round", note="higher is better; it should level off"))
        charts.append(line_chart("Movement", change, x_label="round", note=f"training stops below {model.tol:g}"))
    n_values = max(10, 2 * model.n_clusters)
    spectra = [views.spectrum(points, model.sigma_, n_values).tolist() for points in (rows.Psi, rows.scaled)]
    series = [(name, list(range(1, len(own) + 1)), own) for name, own in zip(("learned", "data"), spectra, strict=True)]
    note = f"{model.n_clusters} separate clusters show as {model.n_clusters - 1} values near 1, then a gap"
    charts.append(line_chart("Spectrum", series, x_label="eigenvalue", note=note, mark=model.n_clusters - 0.5))
    selection = getattr(model, "selection_", None)
    return [*charts, _sigma_chart(model, selection)] if selection else charts


def _sigma_chart(model: KNet, selection: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the chart of the kernel widths that were considered: how much each one's partition cuts."""
    gaussians = sorted((row for row in selection if row["ratio"] is not None), key=lambda row: float(row["ratio"]))
    series = [("conductance", [row["ratio"] for row in gaussians], [row["conductance"] for row in gaussians])]
    chosen = next(row for row in selection if row["chosen"])
    taken = chosen["ratio"]
    start = "" if taken is not None else f"; start: {chosen['affinity']} ({chosen['neighbors']})"
    note = f"lower is better; taken: sigma = {model.sigma_:.3g}{start}"
    return line_chart("Choice of sigma", series, x_label="sigma / median distance", note=note, mark=taken, log_x=True)


def _profiles(rows: Sample, names: list[str], order: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Return the table of standardised medians, most telling columns first."""
    clusters, medians, telling = views.profiles(rows.X, rows.labels)
    levels = np.clip(np.round(medians / 0.5), -4, 4).astype(int)
    return [
        {
            "name": names[j],
            "share": f"{telling[j]:.0%}",
            "cells": [
                {"cluster": int(cluster), "level": int(levels[k, j]), "text": f"{medians[k, j]:+.1f}"}
                for k, cluster in enumerate(clusters)
            ],
        }
        for j in order[:PROFILE_COLUMNS]
    ]


def _typical(model: KNet, rows: Sample, order: NDArray[np.intp], call: Any) -> list[dict[str, Any]]:
    """Return the rows nearest to each centre."""
    distances = np.square(rows.Psi - model.cluster_centers_[rows.labels]).sum(1)
    found = []
    for cluster in np.unique(rows.labels):
        own = np.flatnonzero(rows.labels == cluster)
        for at in own[np.argsort(distances[own], kind="stable")[:TYPICAL_ROWS]]:
            found.append({"cluster": int(cluster), "row": call(rows.rows[at]), "cells": _cells(rows, at, order)})
    return found


def _uncertain(
    rows: Sample, memberships: NDArray[np.floating], order: NDArray[np.intp], call: Any
) -> list[dict[str, Any]]:
    """Return the rows with the smallest lead of their cluster over the next."""
    if memberships.shape[1] == 1:
        return []
    best = np.argsort(-memberships, axis=1)[:, :2]
    at = np.arange(len(best))
    lead = memberships[at, best[:, 0]] - memberships[at, best[:, 1]]
    return [
        {
            "cluster": int(rows.labels[i]),
            "row": call(rows.rows[i]),
            "certainty": f"{memberships[i].max():.2f}",
            "next": f"{best[i, 1]} ({memberships[i, best[i, 1]]:.2f})",
            "cells": _cells(rows, i, order),
        }
        for i in np.argsort(lead, kind="stable")[:UNCERTAIN_ROWS]
    ]


def _cells(rows: Sample, at: Any, order: NDArray[np.intp]) -> list[str]:
    return [f"{rows.X[at, j]:.4g}" for j in order[:ROW_COLUMNS]]


def _agreement(rows: Sample, target: ArrayLike | None) -> dict[str, Any] | None:
    """Return how the clusters compare with known labels; of many classes, the thirty largest are listed."""
    if target is None:
        return None
    known = np.asarray(target)[rows.rows].astype(str)
    classes, counts = np.unique(known, return_counts=True)
    clusters = np.unique(rows.labels).tolist()
    table = contingency_matrix(known, rows.labels)
    listed = np.sort(np.argsort(-counts, kind="stable")[:30])
    return {
        **{
            name: f"{score(known, rows.labels):.3f}"
            for name, score in (("nmi", nmi), ("ari", ari), ("accuracy", accuracy))
        },
        "clusters": clusters,
        "rows": [
            {"name": _short(str(classes[i])), "counts": list(zip(clusters, table[i].tolist(), strict=True))}
            for i in listed
        ],
    }


def _reproduce(model: KNet, X: Any, command: str | None) -> str:
    """Return command, seed, parameters, versions and a fingerprint of the data, as text."""
    plain = (str, int, float, type(None))
    params = {name: value for name, value in model.get_params(deep=False).items() if isinstance(value, plain)}
    values = np.ascontiguousarray(np.asarray(X, dtype=np.float64))
    fingerprint = hashlib.sha256(values.tobytes()).hexdigest()
    lines = [
        command or "knet.KNet(**parameters).fit(X)",
        "",
        f"seed         {params.pop('random_state', None)}",
        f"parameters   {json.dumps(params, ensure_ascii=False)}",
        f"data         {values.shape[0]} x {values.shape[1]} as float64, SHA-256 {fingerprint}",
        f"versions     {', '.join(f'{name} {version}' for name, version in versions().items())}",
    ]
    return "\n".join(lines)


def _short(name: str) -> str:
    """Return a name of bounded length."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 3] + "..."


def _encoded(array: NDArray[Any]) -> str:
    """Return the bytes of an array as base64 text."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
