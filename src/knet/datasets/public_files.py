"""The public files of the paper's real data: their addresses, how to read them, and the paper's preprocessing.

Cancer is the original Wisconsin table, Face the CMU face images at quarter size, RCV the tokens of Reuters RCV1-v2.
Only `download` uses the network.
"""

import gzip
import io
import os
import re
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Dataset = tuple[NDArray[np.float64], NDArray[np.int64]]


class PublicFile(NamedTuple):
    """A file of a data folder and its address."""

    name: str
    url: str


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
RCV1 = "http://www.ai.mit.edu/projects/jmlr/papers/volume5/lewis04a"

PUBLIC_FILES: dict[str, tuple[PublicFile, ...]] = {
    "cancer": (
        PublicFile("breast-cancer-wisconsin.data", f"{UCI}/breast-cancer-wisconsin/breast-cancer-wisconsin.data"),
    ),
    "face": (PublicFile("faces_4.tar.gz", f"{UCI}/faces-mld/faces_4.tar.gz"),),
    "rcv": (
        PublicFile("lyrl2004_tokens_train.dat.gz", f"{RCV1}/a12-token-files/lyrl2004_tokens_train.dat.gz"),
        PublicFile("rcv1-v2.topics.qrels.gz", f"{RCV1}/a08-topic-qrels/rcv1-v2.topics.qrels.gz"),
    ),
}

CANCER_COLUMNS = 11  # an id, nine measurements, the class
FACE_COMPONENTS = 27  # the paper's text says 20; its table and its file have 27
RCV_TOPICS = ("CCAT", "GCAT", "MCAT", "ECAT")  # the roots of the topic tree
RCV_ROWS, RCV_WORDS, RCV_COMPONENTS = 10_000, 500, 5


def download(name: str, folder: str | Path) -> list[Path]:
    """Download the public files of a data set into a folder and return their paths; existing files are not replaced.

    Parameters
    ----------
    name : {"cancer", "face", "rcv"}
        The data set.
    folder : str or Path
        The folder of the files; it is created if missing. A file appears there only when it is complete.
    """
    if name not in PUBLIC_FILES:
        raise ValueError(f"There is nothing to download for {name!r}; there is for {', '.join(PUBLIC_FILES)}.")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for file in PUBLIC_FILES[name]:
        if not (target / file.name).exists():
            _fetch(file.url, target / file.name)
    return [target / file.name for file in PUBLIC_FILES[name]]


def _fetch(url: str, path: Path) -> None:
    """Write the content of a URL to a path, completely or not at all."""
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, os.fdopen(handle, "wb") as file:
            while chunk := answer.read(1 << 20):
                file.write(chunk)
        os.replace(unfinished, path)
    except BaseException as error:
        Path(unfinished).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(f"{url} could not be downloaded: {error}") from error
        raise


def read_public(name: str, folder: Path, random_state: int = 0) -> Dataset:
    """Return a real data set from the public files of a folder, prepared as in the paper.

    Raises FileNotFoundError with the address of the files if one is missing.
    """
    paths = [folder / file.name for file in PUBLIC_FILES[name]]
    missing = [file for file, path in zip(PUBLIC_FILES[name], paths, strict=True) if not path.exists()]
    if missing:
        needed = " and ".join(f"{file.name} (from {file.url})" for file in missing)
        raise FileNotFoundError(
            f"The folder {str(folder)!r} has neither {name}.csv with {name}_label.csv nor {needed}. "
            f"knet.datasets.download({name!r}, folder) downloads the public files."
        )
    if name == "cancer":
        return read_cancer(paths[0])
    if name == "face":
        return read_faces(paths[0])
    return read_rcv(paths[0], paths[1], random_state=random_state)


def read_cancer(path: Path) -> Dataset:
    """Return the nine measurements and the class (0 benign, 1 malignant) of the rows without gaps: 683 of 699."""
    rows = []
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        cells = [cell.strip() for cell in line.split(",")]
        if "?" in cells or not line.strip():
            continue
        whole = len(cells) == CANCER_COLUMNS and all(cell.isdecimal() for cell in cells)
        if not whole or cells[-1] not in {"2", "4"}:
            raise ValueError(
                f"{path.name}, line {number}: expected {CANCER_COLUMNS} whole numbers of which the last is 2 or 4. "
                f"Got {line!r}."
            )
        rows.append([int(cell) for cell in cells])
    table = np.array(rows, dtype=np.int64).reshape(-1, CANCER_COLUMNS)
    return table[:, 1:-1].astype(np.float64), (table[:, -1] == 4).astype(np.int64)


def read_faces(path: Path, n_components: int = FACE_COMPONENTS) -> Dataset:
    """Return the principal components, each of deviation 1, of the images in the archive, and the person of each.

    Files ending in .bad are damaged and left out, as the archive's description recommends: 624 of 640 remain.
    """
    images: dict[tuple[str, str], NDArray[np.float64]] = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            parts = member.name.split("/")
            content = archive.extractfile(member) if member.isfile() and parts[-1].endswith("_4.pgm") else None
            if content is not None and len(parts) > 1:
                images[parts[-2], parts[-1]] = read_pgm(content.read(), parts[-1])
    names = sorted(images)
    if not names:
        raise ValueError(f"{path.name} has no images named PERSON/..._4.pgm.")
    people = sorted({person for person, _ in names})
    y = np.array([people.index(person) for person, _ in names], dtype=np.int64)
    return _whitened(np.stack([images[name] for name in names]), n_components), y


def read_pgm(content: bytes, name: str = "image") -> NDArray[np.float64]:
    """Return the pixels of a grey-scale PGM image, plain (P2) or raw (P5) with one byte a pixel, in one row."""
    header = re.match(rb"(P[25])(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)(?:\s|#[^\n]*\n)+(\d+)\s", content)
    if header is None or not 0 < int(header[4]) < 256:
        raise ValueError(f"{name} is not a PGM image with one byte a pixel.")
    size, body = int(header[2]) * int(header[3]), content[header.end() :]
    pixels = np.frombuffer(body, np.uint8) if header[1] == b"P5" else np.array(body.split(), dtype=np.float64)
    if len(pixels) < size:
        raise ValueError(f"{name} should have {size} pixels and has {len(pixels)}.")
    return pixels[:size].astype(np.float64)


def read_rcv(
    tokens: Path,
    topics: Path,
    n_samples: int = RCV_ROWS,
    n_words: int = RCV_WORDS,
    n_components: int = RCV_COMPONENTS,
    random_state: int = 0,
) -> Dataset:
    """Return articles that have one root topic: tf-idf of the most frequent words, then principal components.

    Parameters
    ----------
    tokens, topics : Path
        The token file and the topic file of RCV1-v2, gzipped or not.
    n_samples : int, default=10,000
        Articles drawn at random; all, if there are fewer.
    n_words, n_components : int
        Words kept, and principal components of their tf-idf, each of deviation 1.
    random_state : int, default=0
        Seed of the draw.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    root = _single_roots(topics)
    articles = [(text, root[number]) for number, text in _articles(tokens) if number in root]
    if not articles:
        raise ValueError(f"No article of {tokens.name} has exactly one of the topics {', '.join(RCV_TOPICS)}.")
    drawn = np.random.default_rng(random_state).permutation(len(articles))[:n_samples]
    chosen = [articles[i] for i in np.sort(drawn)]
    weights = TfidfVectorizer(analyzer=str.split, max_features=n_words).fit_transform([text for text, _ in chosen])
    y = np.array([topic for _, topic in chosen], dtype=np.int64)
    return _whitened(weights.toarray(), n_components), y


def _single_roots(path: Path) -> dict[str, int]:
    """Return the root topic of every article that has exactly one; lines are TOPIC ARTICLE 1."""
    found: dict[str, set[int]] = {}
    for line in _text_lines(path):
        parts = line.split()
        if len(parts) == 3 and parts[0] in RCV_TOPICS:
            found.setdefault(parts[1], set()).add(RCV_TOPICS.index(parts[0]))
    return {number: min(roots) for number, roots in found.items() if len(roots) == 1}


def _articles(path: Path) -> Iterator[tuple[str, str]]:
    """Yield number and stemmed words of each article; an article starts with .I NUMBER, its words with .W."""
    number, words = "", list[str]()
    for line in _text_lines(path):
        if line.startswith(".I "):
            if number:
                yield number, " ".join(words)
            number, words = line[3:].strip(), []
        elif not line.startswith(".W"):
            words.append(line.strip())
    if number:
        yield number, " ".join(words)


def _text_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, gzipped or not."""
    with open(path, "rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with io.TextIOWrapper(gzip.open(path) if packed else open(path, "rb"), encoding="latin-1") as lines:
        yield from lines


def _whitened(X: NDArray[np.float64], n_components: int) -> NDArray[np.float64]:
    """Return the first principal components, each with mean 0 and deviation 1."""
    from sklearn.decomposition import PCA

    n_components = min(n_components, *X.shape)
    Z = PCA(n_components, svd_solver="full").fit_transform(X)
    scaled: NDArray[np.float64] = Z / np.maximum(Z.std(0), np.finfo(np.float64).tiny)
    return scaled
