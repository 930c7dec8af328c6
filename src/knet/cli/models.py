"""Model files as the commands use them: the model with the conversion of its columns."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knet.exceptions import ModelFileError
from knet.model.light import LightModel, load_light
from knet.tables.conversion import Conversion


def load_light_model(path: Path) -> tuple[LightModel, Conversion]:
    """Read a model that labels rows, and the conversion of its columns; numbers only if no command fitted it.

    Torch is not imported, so that a command which needs a whole model uses this first: a damaged file is refused soon.
    """
    model = load_light(path)
    stored = model.extra.get("table")
    if stored is None:
        return model, Conversion.of_numbers(model.names or (f"x{j}" for j in range(model.n_features)))
    try:
        return model, Conversion.checked(stored, model.n_features)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error


class _NoPandas:
    """A finder of modules that knows that pandas is not there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas, and leave all others to the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas from Arrow and scikit-learn, which import it, in 0.15 s, to recognise the values of a DataFrame.

    Arrow looks again if a call needs pandas, such as `Table.from_pandas`.
    """
    sys.meta_path.insert(0, finder := _NoPandas())
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
