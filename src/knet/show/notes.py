"""What the report says in sentences: the verdict, and what a reader should know before using the clusters."""

import numpy as np

from knet.arrays import Floats
from knet.estimator import KNet
from knet.explore.samples import Sample
from knet.explore.stability import Stability
from knet.model.certainty import DOUBTFUL
from knet.show.tables import ClusterRow
from knet.start.candidates import Pool
from knet.start.caveats import about_partition, deciding_column, index_columns, reliable_size, small_clusters
from knet.start.columns import comparable_columns
from knet.start.judge import Judge
from knet.threads import one_blas_thread

GRAPH_ROWS = 10_000  # the maximum number of rows in the neighbour graph
MANY = 0.05  # share of doubtful rows that deserves a warning


def verdict(clusters: list[ClusterRow], n_rows: int, certainty: float, stability: Stability | None) -> list[str]:
    """Return how many clusters there are, how big they are and how sure the labels are, in sentences."""
    if len(clusters) == 1:
        return ["One cluster contains all rows."]
    shares = {row.share for row in clusters}
    sizes = sorted(clusters, key=lambda row: row.n_rows)
    spread = (
        f"between {sizes[0].share} and {sizes[-1].share} of the rows"
        if len(shares) > 1
        else f"{shares.pop()} of the rows each"
    )
    found = [f"{len(clusters)} clusters, with {spread}."]
    if stability is not None and stability.is_known:
        refits = f"{stability.n_refits} refit{'s' * (stability.n_refits != 1)}"
        found.append(
            f"They are {stability.word}: their mean adjusted Rand index with {refits} on other rows is "
            f"{stability.overall:.2f} (1 = identical)."
        )
    found.append(f"On average, a row belongs to its cluster with a probability of {certainty:.2f}.")
    if n_rows >= 10 * reliable_size(n_rows):
        found.append(f"Groups of fewer than about {reliable_size(n_rows):,} of the {n_rows:,} rows cannot be found.")
    return found


def warnings(model: KNet, rows: Sample, proba: Floats, stability: Stability | None, random_state: int) -> list[str]:
    """Return what a reader should know before using the clusters."""
    names = getattr(model, "feature_names_in_", None)
    found = [*_not_converged(model), *_empty_clusters(model, rows), *small_clusters(rows.labels, model.n_clusters)]
    found += [*_about_graph(rows, random_state), *_unstable(stability)]
    if model.predictor_.preparation.projection is None:  # principal components mean nothing to a reader
        found += [*deciding_column(rows.scaled, rows.labels, names), *index_columns(rows.X, names)]
    uncertain = float((proba.max(1) < DOUBTFUL).mean())
    if uncertain > MANY:
        found.append(f"{uncertain:.0%} of the rows belong to their cluster with a probability below {DOUBTFUL}.")
    return found


def _not_converged(model: KNet) -> list[str]:
    """Return a note if training stopped early."""
    change = model.history_[-1]["u_change"] if model.history_ else 0.0
    from_partition = bool(getattr(model, "selection_", None))  # then training also stops on the agreement with it
    if from_partition or model.n_iter_ < model.max_iter or change < model.tol:
        return []
    return [
        f"Training stopped after {model.n_iter_} iterations, before it converged: U still changed by {change:.2g} "
        f"(tol={model.tol:g}). Increase max_iter."
    ]


def _empty_clusters(model: KNet, rows: Sample) -> list[str]:
    """Return a note if clusters have no rows."""
    n_found = len(np.unique(rows.labels))
    return [f"Only {n_found} of the {model.n_clusters} clusters contain rows."] if n_found < model.n_clusters else []


def _about_graph(rows: Sample, random_state: int) -> list[str]:
    """Return what the neighbour graph of the rows says about the clusters."""
    few = rows.thin(GRAPH_ROWS, random_state)
    labels = np.unique(few.labels, return_inverse=True)[1].astype(np.int64)
    if not 1 <= labels.max() < len(labels) - 1 or not np.ptp(few.scaled, axis=0).any():
        return []
    with one_blas_thread():
        X = comparable_columns(few.scaled, np.random.RandomState(random_state))
        pool = Pool(X, int(labels.max()) + 1, random_state)
        judge = Judge(X, pool.near)
        return about_partition(pool, judge, labels, judge.measure(labels))


def _unstable(stability: Stability | None) -> list[str]:
    """Return notes on clusters that refits do not find again, and on those with too few rows to say."""
    if stability is None:
        return []
    return [*([stability.caveat] if stability.caveat else []), *stability.doubts]
