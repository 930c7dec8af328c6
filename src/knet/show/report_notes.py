"""What the report says in words: the verdict, warnings, how training went, and how to reproduce the result."""

import hashlib
import json

import numpy as np

from knet.arrays import Floats, Labels, RowsLike
from knet.estimator import KNet
from knet.explore.samples import Sample
from knet.explore.stability import Stability
from knet.model.certainty import DOUBTFUL
from knet.model.file import versions
from knet.parameters import Params
from knet.rows.dense import dense_rows
from knet.rows.kinds import count_rows, take_rows
from knet.show.profiles import percent
from knet.start.caveats import reliable_size

HASHED_ROWS = 10_000  # the maximum number of rows in the fingerprint
MANY = 0.05  # share of doubtful rows that deserves a warning


def verdict(model: KNet, sizes: Labels, n_rows: int, certainty: float, stability: Stability | None) -> list[str]:
    """Return how many clusters there are, how big they are and how sure the labels are, in sentences."""
    counts = sizes[sizes > 0]
    if len(counts) == 1:
        return ["One cluster contains all rows."]
    least, most = percent(counts.min() / counts.sum()), percent(counts.max() / counts.sum())
    spread = f"{most} of the rows each" if least == most else f"between {least} and {most} of the rows"
    found = [f"{len(counts)} clusters, with {spread}."]
    if stability is not None and stability.is_known:
        found.append(
            f"They are {stability.word}: their mean adjusted Rand index with {plural(stability.n_refits, 'refit')} on "
            f"other rows is {stability.overall:.2f} (1 = identical)."
        )
    if model.n_clusters_ > 1:
        found.append(model.number_["advice"])
    if model.names_:
        found.append(f"Names: {', '.join(f'{label} is {name}' for label, name in sorted(model.names_.items()))}.")
    if changed := sum("names" not in edit for edit in model.predictor_.naming.edits):
        found.append(f"After the fit, clusters were merged or split {'once' if changed == 1 else f'{changed} times'}.")
    if stability is not None and stability.is_refuted:
        found.append("Probabilities are not shown: they suppose that these are the clusters, and refits find others.")
    else:
        found.append(f"On average, a row belongs to its cluster with a probability of {certainty:.2f}.")
    if n_rows >= 10 * reliable_size(n_rows):
        found.append(f"Groups of fewer than about {reliable_size(n_rows):,} of the {n_rows:,} rows cannot be found.")
    return found


def warnings(model: KNet, rows: Sample, proba: Floats, stability: Stability | None) -> list[str]:
    """Return what a reader should know before using the clusters: what the fit said, and what these rows show."""
    found = [*_not_converged(model), *getattr(model, "caveats_", [])]
    n_found = len(np.unique(rows.labels))
    if n_found < model.n_clusters_:
        found.append(f"Only {n_found} of the {model.n_clusters_} clusters contain rows.")
    if stability is not None:
        found += [*([stability.caveat] if stability.caveat else []), *stability.doubts]
    uncertain = float((proba.max(1) < DOUBTFUL).mean())
    if uncertain > MANY and not (stability is not None and stability.is_refuted):
        found.append(f"{uncertain:.0%} of the rows belong to their cluster with a probability below {DOUBTFUL}.")
    return found


def _not_converged(model: KNet) -> list[str]:
    """Return a note if training stopped early."""
    change = model.history_[-1]["u_change"] if model.history_ else 0.0
    if _has_start(model) or model.n_iter_ < model.max_iter or change < model.tol:
        return []
    return [
        f"Training stopped after {plural(model.n_iter_, 'iteration')}, before it converged: U still changed by "
        f"{change:.2g} (tol={model.tol:g}). Increase max_iter."
    ]


def training_note(model: KNet) -> str:
    """Return how training went, in sentences."""
    if not model.history_:
        return "The encoder was not trained."
    last = model.history_[-1]
    kept = f"iteration {model.best_iter_} was kept" if model.best_iter_ else "the start was kept as it is"
    also = ", or if the clusters no longer agree with the start" if _has_start(model) else ""
    return (
        f"{plural(model.n_iter_, 'iteration')}; {kept}; HSIC {last['hsic']:.3g}, change of K_U {last['u_change']:.2g} "
        f"in the last one. Training stops if K_U changes by less than {model.tol:g}{also}."
    )


def _has_start(model: KNet) -> bool:
    """Say whether training began with a chosen partition; it then also ends on the agreement with it."""
    return bool(getattr(model, "selection_", None))


def reproduce(model: KNet, X: RowsLike, command: str | None) -> str:
    """Return what a reader needs to repeat the fit, as lines of text."""
    params = _plain(model.get_params(deep=False))
    advanced = {} if model.advanced is None else _plain(model.advanced.get_params())
    call = "knet.KNet(**parameters, advanced=knet.Advanced(**advanced))" if advanced else "knet.KNet(**parameters)"
    lines = [
        command or f"{call}.fit(X)",
        "",
        f"random_state {params.pop('random_state', None)}",
        f"parameters   {json.dumps(params, ensure_ascii=False)}",
        *([f"advanced     {json.dumps(advanced, ensure_ascii=False)}"] if advanced else []),
        f"data         {fingerprint(model, X)}",
        f"versions     {', '.join(f'{name} {version}' for name, version in versions().items())}",
    ]
    return "\n".join(lines)


def fingerprint(model: KNet, X: RowsLike) -> str:
    """Return the shape of X and a hash of its values, of at most `HASHED_ROWS` rows at equal steps.

    The hash is the SHA-256 of the rows ``np.linspace(0, n - 1, min(n, 10_000)).astype(int)``, as float64 in C order.
    """
    n_rows = count_rows(X)
    rows = np.linspace(0, n_rows - 1, min(n_rows, HASHED_ROWS)).astype(np.int64)
    values = np.ascontiguousarray(dense_rows(model._rows(take_rows(X, rows))), dtype=np.float64)
    digest = hashlib.sha256(values.tobytes())
    hashed = "all rows" if len(rows) == n_rows else f"{len(rows):,} rows at equal steps"
    return f"{n_rows} x {model.n_features_in_}; SHA-256 of {hashed} as float64: {digest.hexdigest()}"


def _plain(params: Params) -> Params:
    """Return the parameters that text can show: numbers, strings, tuples and None."""
    kinds = (str, int, float, tuple, type(None))
    return {name: value for name, value in params.items() if isinstance(value, kinds) and name != "advanced"}


def plural(count: int, noun: str) -> str:
    """Return a count and its noun, such as "2 refits"."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
