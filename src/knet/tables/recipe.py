"""`Recipe`, the scikit-learn transformer that turns a table into numbers as the command line does."""

from collections import Counter
from collections.abc import Sequence
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from knet.arrays import Json, RowsLike
from knet.exceptions import KNetDataWarning, warn_user
from knet.rows.kinds import admit, table_kind
from knet.tables.cells import convert, describe_wrong
from knet.tables.conversion import Conversion, describe_unseen
from knet.tables.dialect import Dialect
from knet.tables.json_excel import to_cell
from knet.tables.learn import PYTHON, Choices, learn


class Converted(np.ndarray):
    """Numbers that a recipe made of a table; what is computed from them has no recipe."""

    recipe: "Recipe | None" = None


class Recipe(TransformerMixin, BaseEstimator):
    """Turns the columns of a DataFrame into numbers, in the way in which `knet fit` turns those of a file.

    Numbers stay, true and false become 1 and 0. Text and dates are refused unless `one_hot`, `dates` or `auto` is set.
    A missing value stays missing (NaN), which `KNet` allows; words such as NA count as missing, in text too. A column
    that counts the rows, identifies them by a text or is almost empty is left out, with a warning, unless `columns`
    names it.

    A recipe is the transformer; what it learned is its `conversion_`, which model files store too.

    Parameters
    ----------
    columns : list of str, optional
        Columns to use; all by default.
    drop : list of str, optional
        Columns to leave out.
    one_hot : bool, default=False
        Convert text and categories to one 0/1 column per value; values of fewer than 10 rows are joined as "(other)".
        Values not seen in training count as "(other)", or are encoded as zeros, with a warning.
    dates : bool, default=False
        Convert dates and times to days since 1970.
    na : list of str, optional
        Words that mean a missing value in columns of mixed objects, such as numbers and texts.
    auto : bool, default=False
        Convert text and dates, read words among numbers as missing, and leave out what can be no number, with warnings.

    Attributes
    ----------
    conversion_ : knet.tables.conversion.Conversion
        What was learned about the columns.
    feature_names_in_, n_features_in_
        As in scikit-learn.

    Examples
    --------
    >>> import pandas as pd
    >>> from knet.tables import Recipe
    >>> frame = pd.DataFrame({"size": [1.0, None, 3.0], "kind": ["a", "b", "a"], "new": [True, False, True]})
    >>> recipe = Recipe(one_hot=True).fit(frame)
    >>> recipe.get_feature_names_out().tolist()
    ['size', 'kind=a', 'kind=b', 'new']
    >>> recipe.transform(frame).tolist()
    [[1.0, 1.0, 0.0, 1.0], [nan, 0.0, 1.0, 0.0], [3.0, 1.0, 0.0, 1.0]]
    """

    def __init__(
        self,
        *,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        one_hot: bool = False,
        dates: bool = False,
        na: Sequence[str] | None = None,
        auto: bool = False,
    ) -> None:
        self.columns = columns
        self.drop = drop
        self.one_hot = one_hot
        self.dates = dates
        self.na = na
        self.auto = auto

    @classmethod
    def from_json(cls, data: dict[str, Json], n_features: int | None = None) -> Self:
        """Return a fitted recipe from the output of `to_json`, for example from ``knet.load(path).extra_["table"]``.

        With `n_features`, the data are checked first: they have to make so many columns.
        """
        return cls.of(Conversion.from_json(data) if n_features is None else Conversion.checked(data, n_features))

    @classmethod
    def of(cls, conversion: Conversion) -> Self:
        """Return a fitted recipe from what one learned."""
        recipe = cls()
        recipe.conversion_ = conversion
        return recipe

    def keep(self, rows: NDArray[np.float64]) -> "Converted":
        """Return rows that this recipe made, with the recipe."""
        kept = rows.view(Converted)
        kept.recipe = self
        return kept

    def to_json(self) -> dict[str, Json]:
        """Return what was learned as data for a JSON file; ``model.save(path, recipe=recipe)`` stores it."""
        check_is_fitted(self)
        return self.conversion_.to_json()

    def fit(self, X: RowsLike, y: object = None) -> Self:
        """Learn the columns and categories of a table: a pandas or polars DataFrame, an Arrow table, or a 2-d array.

        `y` is ignored, present by convention.
        """
        table, text = _to_arrow(X)
        columns, drop = tuple(self.columns or ()), tuple(self.drop or ())
        choices = Choices(columns, drop, one_hot=self.one_hot, dates=self.dates, auto=self.auto, advice=PYTHON)
        learned = learn(table, choices, text, self._dialect if text else None)
        for note in learned.notes:
            warn_user(note[0].upper() + note[1:], KNetDataWarning)
        self.conversion_ = learned.conversion
        self.feature_names_in_ = np.array(table.column_names, dtype=object)
        self.n_features_in_ = len(table.column_names)
        return self

    def transform(self, X: RowsLike) -> "Converted":
        """Return the rows as numbers, of shape (n_samples, number of output columns).

        A model that is fitted on them keeps the recipe: its methods, and those of its file, then accept tables like X.
        """
        check_is_fitted(self)
        table, text = _to_arrow(X)
        columns = {name: table[name] for name in self.conversion_.types(table.column_names)}
        for column in self.conversion_.columns:
            if column.name in text:
                cells = convert(table[column.name], column, self.conversion_.dialect or self._dialect)
                if cells.n_wrong:
                    raise ValueError(describe_wrong(column.name, table[column.name], cells, column.kind, 0)[0] + ".")
                columns[column.name] = cells.values
        unseen = Counter[str]()
        rows = self.conversion_.apply(pa.table(columns), unseen)
        for note in describe_unseen(unseen):
            warn_user(note, KNetDataWarning)
        return self.keep(rows)

    @property
    def _dialect(self) -> Dialect:
        return Dialect(na=tuple(self.na or ()))

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`: `name`, or `name=value` for each category."""
        check_is_fitted(self)
        return np.array(self.conversion_.outputs, dtype=object)

    def __sklearn_tags__(self) -> Tags:
        """Say that text, categories and missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags


def _to_arrow(X: RowsLike) -> tuple[pa.Table, list[str]]:
    """Return a table in memory as an Arrow table, and its columns of mixed Python values, which become text cells.

    The columns of an array are called x0, x1, ...
    """
    rows = admit(X)
    if table_kind(rows) == "pandas":
        return _from_pandas(rows)
    if table_kind(rows) is not None:
        return (pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else pa.table(rows)), []
    if getattr(rows, "ndim", 0) != 2 or rows.dtype.kind not in "biuf":
        raise TypeError(
            "X must be a pandas or polars DataFrame, an Arrow table, or a two-dimensional array of numbers. "
            f"Got {type(X).__name__} instead."
        )
    return pa.table({f"x{j}": np.ascontiguousarray(column) for j, column in enumerate(rows.T)}), []


def _from_pandas(X: RowsLike) -> tuple[pa.Table, list[str]]:
    """Return a pandas DataFrame as an Arrow table; columns of mixed objects become text cells."""
    names = [str(name) for name in X.columns]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"X has more than one column {repeated[0]!r}. Rename them first.")
    columns, text = {}, []
    for j, name in enumerate(names):
        values = X.iloc[:, j]
        try:
            columns[name] = pa.chunked_array(pa.array(values, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.chunked_array([pa.array([to_cell(value) for value in values], pa.string())])
            text.append(name)
    return pa.table(columns), text
