"""Vectors as language and image models make them, and word counts: rows and labels of each case.

No model is downloaded: the vectors are generated, or made of images and texts that are installed with Python packages.
"""

import ast
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

Labels = NDArray[np.int64]
TEXT_PACKAGES = ("numpy", "scipy", "sklearn", "torch", "pandas", "pyarrow")  # each is a topic of the docstrings
MIN_WORDS = 40  # of a docstring
DOCSTRINGS = 500  # of each package


@dataclass(frozen=True)
class Case:
    """Rows with known labels."""

    X: NDArray[np.float32] | csr_array
    y: Labels

    @property
    def n_clusters(self) -> int:
        """The number of known clusters."""
        return len(np.unique(self.y))


def generated_vectors(
    n_rows: int,
    n_columns: int,
    n_groups: int,
    *,
    separation: float,
    unequal: bool = False,
    decay: float = 0.5,
    n_huge: int = 3,
    seed: int = 0,
) -> Case:
    """Return unit vectors with a common direction, groups around their own directions, and columns of huge variance.

    Within a group, the deviations along random directions k = 1, 2, ... fall like k^-decay, as those of embeddings do;
    with decay 0 the groups are round. `separation` is the length of a group's own direction, as a multiple of the
    length of the noise; `unequal` makes the largest group twenty times as large as the smallest.
    """
    rng = np.random.default_rng(seed)
    shares = np.geomspace(20 if unequal else 1, 1, n_groups)
    y = rng.choice(n_groups, n_rows, p=shares / shares.sum())
    y[:n_groups] = np.arange(n_groups)
    spectrum = np.arange(1, n_columns + 1) ** -decay
    rotation = np.linalg.qr(rng.normal(size=(n_columns, n_columns)))[0]
    noise = rng.normal(size=(n_rows, n_columns)) * (spectrum / np.linalg.norm(spectrum))
    directions = rng.normal(size=(n_groups, n_columns))
    directions *= separation / np.linalg.norm(directions, axis=1, keepdims=True)
    common = rng.normal(size=n_columns)
    X = noise @ rotation + directions[y] + 1.5 * common / np.linalg.norm(common)
    X[:, rng.choice(n_columns, n_huge, replace=False)] *= 6
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Case(X.astype(np.float32), y)


def generated_counts(n_documents: int = 3000, n_words: int = 6000, n_topics: int = 6, seed: int = 0) -> Case:
    """Return word counts of documents in topics, as a sparse matrix.

    Words follow Zipf's law. A topic has its own frequent words, lengths vary by a factor of ten, and half of a document
    is written in words that all topics share.
    """
    rng = np.random.default_rng(seed)
    shared = 1 / np.arange(1, n_words + 1)
    shared /= shared.sum()
    topics = rng.dirichlet(np.full(n_words, 0.02), size=n_topics)
    y = rng.integers(n_topics, size=n_documents)
    lengths = rng.integers(40, 400, size=n_documents)
    rows = [rng.multinomial(n, (shared + topics[t]) / 2) for n, t in zip(lengths, y, strict=True)]
    return Case(csr_array(np.array(rows, dtype=np.float32)), y)


def weighted(case: Case) -> Case:
    """Return word counts with the weights of TF-IDF, rows of length 1."""
    return Case(csr_array(TfidfTransformer(sublinear_tf=True).fit_transform(case.X)).astype(np.float32), case.y)


def docstring_counts() -> Case:
    """Return the word counts of docstrings of installed packages; the package is the topic."""
    texts = {package: list(_docstrings(package))[:DOCSTRINGS] for package in TEXT_PACKAGES}
    y = np.repeat(np.arange(len(texts)), [len(own) for own in texts.values()])
    words = CountVectorizer(min_df=3, max_df=0.5, stop_words="english", token_pattern=r"[A-Za-z]{3,}")
    X = words.fit_transform([text for own in texts.values() for text in own])
    return Case(csr_array(X).astype(np.float32), y)


def _docstrings(package: str) -> Iterator[str]:
    """Yield the long docstrings of a package's functions and classes, without importing it."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None
    for path in sorted(folder.rglob("*.py")) if folder else ():
        if "tests" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8", errors="ignore"))
        except SyntaxError:  # examples of the syntax of other Python versions
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                if len(text.split()) >= MIN_WORDS:
                    yield text


def digits() -> Case:
    """Return the 1,797 images of digits that scikit-learn contains, 64 columns."""
    X, y = load_digits(return_X_y=True)
    return Case(X.astype(np.float32), y)


CASES: dict[str, Callable[[], Case]] = {
    "20,000 x 384, 20 round groups": partial(generated_vectors, 20_000, 384, 20, separation=0.25, decay=0, n_huge=0),
    "20,000 x 384, 20 unequal groups": partial(generated_vectors, 20_000, 384, 20, separation=0.4, unequal=True),
    "5,000 x 768, 5 groups": partial(generated_vectors, 5000, 768, 5, separation=0.35, seed=1),
    "10,000 x 768, 50 unequal groups": partial(
        generated_vectors, 10_000, 768, 50, separation=0.3, decay=0.2, unequal=True, seed=2
    ),
    "3,000 x 384, 10 unequal groups": partial(generated_vectors, 3000, 384, 10, separation=0.4, unequal=True, seed=3),
    "digits, 1,797 x 64": digits,
    "generated counts, 3,000 documents": generated_counts,
    "generated counts, TF-IDF": lambda: weighted(generated_counts()),
    "docstrings of six packages, counts": docstring_counts,
    "docstrings of six packages, TF-IDF": lambda: weighted(docstring_counts()),
}
