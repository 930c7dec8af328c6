"""The public files of the paper's real data: their addresses, how to read them, and the paper's preprocessing.

Cancer is the original Wisconsin table, Face the CMU face images at quarter size, RCV the tokens of Reuters RCV1-v2.
Only `download` uses the network.
"""

import gzip
import hashlib
import http.client
import io
import logging
import re
import tarfile
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knet.datasets import Dataset
from knet.files import whole_file

logger = logging.getLogger(__name__)


class PublicFile(NamedTuple):
    """A file of a data folder, its address, and a function that raises a ValueError if its content is not that file."""

    name: str
    url: str
    check: Callable[[Path], None]


def _expect(what: str, expected: object, found: object) -> None:
    if found != expected:
        raise ValueError(f"{what} should be {expected}. Got {found}.")


def check_cancer(path: Path) -> None:
    """Raise unless a file has the rows of the original Wisconsin table: 683 without gaps, 239 of them malignant."""
    X, y = read_cancer(path)
    _expect("The shape without gaps", (683, 9), X.shape)
    _expect("The number of malignant rows", 239, int(y.sum()))
    _expect("The first row", [5, 1, 1, 1, 2, 1, 3, 1, 1], X[0].tolist())


def check_faces(path: Path) -> None:
    """Raise unless an archive has the 624 images of the 20 persons, each of 32 by 30 pixels."""
    images = _face_images(path)
    _expect("The number of images", 624, len(images))
    _expect("The number of persons", 20, len({person for person, _ in images}))
    _expect("The numbers of pixels", {32 * 30}, {len(pixels) for pixels in images.values()})


def check_rcv_tokens(path: Path) -> None:
    """Raise unless a file has the 23,149 articles of the RCV1-v2 training set, from number 2286 on."""
    numbers = [number for number, _ in _articles(path)]
    _expect("The number of articles", 23_149, len(numbers))
    _expect("The first article", "2286", numbers[0])


def check_rcv_topics(path: Path) -> None:
    """Raise unless a file gives topics to the 804,414 articles of RCV1-v2."""
    articles = {line.split()[1] for line in _text_lines(path) if len(line.split()) == 3}
    _expect("The number of articles", 804_414, len(articles))


UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
RCV1 = "http://www.ai.mit.edu/projects/jmlr/papers/volume5/lewis04a"

PUBLIC_FILES: dict[str, tuple[PublicFile, ...]] = {
    "cancer": (
        PublicFile(
            "breast-cancer-wisconsin.data",
            f"{UCI}/breast-cancer-wisconsin/breast-cancer-wisconsin.data",
            check_cancer,
        ),
    ),
    "face": (PublicFile("faces_4.tar.gz", f"{UCI}/faces-mld/faces_4.tar.gz", check_faces),),
    "rcv": (
        PublicFile(
            "lyrl2004_tokens_train.dat.gz", f"{RCV1}/a12-token-files/lyrl2004_tokens_train.dat.gz", check_rcv_tokens
        ),
        PublicFile("rcv1-v2.topics.qrels.gz", f"{RCV1}/a08-topic-qrels/rcv1-v2.topics.qrels.gz", check_rcv_topics),
    ),
}

CANCER_COLUMNS = 11  # an id, nine measurements, the class
FACE_COMPONENTS = 27  # the paper's text says 20; its table and its file have 27
RCV_TOPICS = ("CCAT", "GCAT", "MCAT", "ECAT")  # the roots of the topic tree
RCV_ROWS, RCV_WORDS, RCV_COMPONENTS = 10_000, 500, 5


def download(name: str, folder: str | Path) -> list[Path]:
    """Download the public files of a data set into a folder and return their paths; existing files are not replaced.

    A file is kept only if it is complete and has the known shape and values of that file. Its SHA-256 hash is logged.

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
            _fetch(file, target / file.name)
    return [target / file.name for file in PUBLIC_FILES[name]]


def _fetch(file: PublicFile, path: Path) -> None:
    """Write the content of a URL to a path, completely and checked or not at all."""
    with whole_file(path, overwrite=False) as temporary:
        try:
            with urllib.request.urlopen(file.url, timeout=60) as answer, open(temporary, "wb") as copy:
                while chunk := answer.read(1 << 20):
                    copy.write(chunk)
                expected, size = answer.headers.get("Content-Length"), copy.tell()
                if expected is not None and int(expected) != size:
                    raise OSError(f"the download ended after {size:,} of {int(expected):,} bytes")
        except (OSError, http.client.HTTPException) as error:
            raise OSError(f"{file.url} could not be downloaded: {error}") from error
        try:
            file.check(temporary)
        except (ValueError, OSError, EOFError, IndexError, tarfile.TarError, zlib.error) as error:
            raise ValueError(f"{file.url} is not the expected file, so it was not kept: {error}") from error
        logger.info("%s sha256 %s", file.name, file_hash(temporary))


def file_hash(path: Path) -> str:
    """Return the SHA-256 hash of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
            f"`python -m benchmarks.download FOLDER {name}` downloads the public files."
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
    images = _face_images(path)
    names = sorted(images)
    if not names:
        raise ValueError(f"{path.name} has no images named PERSON/..._4.pgm.")
    people = sorted({person for person, _ in names})
    y = np.array([people.index(person) for person, _ in names], dtype=np.int64)
    return _whitened(np.stack([images[name] for name in names]), n_components), y


def _face_images(path: Path) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Return the pixels of the images of an archive, by person and name."""
    images: dict[tuple[str, str], NDArray[np.float64]] = {}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            parts = member.name.split("/")
            content = archive.extractfile(member) if member.isfile() and parts[-1].endswith("_4.pgm") else None
            if content is not None and len(parts) > 1:
                images[parts[-2], parts[-1]] = read_pgm(content.read(), parts[-1])
    return images


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
