"""How to reproduce a result: command, parameters, versions and a fingerprint of the data."""

import hashlib
import json
from typing import Any

import numpy as np

from knet.estimator import KNet
from knet.model.file import versions
from knet.rows.dense import dense_rows
from knet.rows.kinds import count_rows, take_rows

HASHED_ROWS = 10_000  # the maximum number of rows in the fingerprint


def reproduce(model: KNet, X: Any, command: str | None) -> str:
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


def fingerprint(model: KNet, X: Any) -> str:
    """Return the shape of X and a hash of its values, of at most `HASHED_ROWS` rows at equal steps.

    The hash is the SHA-256 of the rows ``np.linspace(0, n - 1, min(n, 10_000)).astype(int)``, as float64 in C order.
    """
    n_rows = count_rows(X)
    rows = np.linspace(0, n_rows - 1, min(n_rows, HASHED_ROWS)).astype(np.int64)
    values = np.ascontiguousarray(dense_rows(model._rows(take_rows(X, rows))), dtype=np.float64)
    digest = hashlib.sha256(values.tobytes())
    hashed = "all rows" if len(rows) == n_rows else f"{len(rows):,} rows at equal steps"
    return f"{n_rows} x {model.n_features_in_}; SHA-256 of {hashed} as float64: {digest.hexdigest()}"


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that text can show: numbers, strings, tuples and None."""
    kinds = (str, int, float, tuple, type(None))
    return {name: value for name, value in params.items() if isinstance(value, kinds) and name != "advanced"}
