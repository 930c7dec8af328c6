"""Reductions over the blocks of a Dask collection, as a tree: a few results are merged at a time, in order."""

from collections.abc import Callable, Sequence
from typing import Any

import dask
from dask.base import tokenize
from dask.core import flatten
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

MERGED_AT_ONCE = 8  # results that one task merges


def reduce_blocks(
    X: Any, block: Callable[..., Any], merge: Callable[..., Any], nodes: Sequence[Delayed] = ()
) -> Delayed:
    """Return `merge` of the results of `block(rows, number of the block, *nodes)` for all blocks, lazily."""
    (X,) = dask.optimize(X)
    name = f"knet-tree-{tokenize(X, block, merge, *nodes)}"
    keys = [node.key for node in nodes]
    graph: dict[Any, Any] = {}
    level = []
    for number, rows in enumerate(flatten(X.__dask_keys__())):
        graph[name, 0, number] = (block, rows, number, *keys)
        level.append((name, 0, number))
    depth = 0
    while depth == 0 or len(level) > 1:
        depth += 1
        groups = [level[at : at + MERGED_AT_ONCE] for at in range(0, len(level), MERGED_AT_ONCE)]
        graph |= {(name, depth, number): (merge, group) for number, group in enumerate(groups)}
        level = [(name, depth, number) for number in range(len(groups))]
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[X, *nodes])
    return Delayed(level[0], layers, layer=name)
