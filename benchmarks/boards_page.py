"""The page of boards, benchmarks.md, from the rows that `benchmarks.boards` has stored."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

CLOSE = 0.005  # smaller differences of a score are no loss
Scores = dict[str, list[float]]  # by method, an entry for each measure of the board


class Row(TypedDict):
    """The scores on a data set."""

    set: str
    scores: Scores


@dataclass(frozen=True)
class Board:
    """A section of the page.

    Attributes
    ----------
    title, how : str
        Its title, and a sentence that says how it is measured.
    measures : tuple of str
        What an entry of a table has, divided by a slash; the first decides who is first.
    lower : bool
        Whether a lower value of the first measure is better.
    aside : tuple of str
        Columns that are no peers: variants of knet, or methods that know more.
    """

    title: str
    how: str
    measures: tuple[str, ...]
    lower: bool = False
    aside: tuple[str, ...] = ()


BOARDS = {
    "suite": Board(
        "Tables, the number of clusters given",
        "All methods get the number of clusters; all but knet get standardised columns. Rows that are labelled as "
        "noise are not scored, and of several labelings of a data set the best counts.",
        ("ARI", "NMI"),
    ),
    "unknown": Board(
        "The number of clusters unknown",
        'knet is `KNet("auto")`; HDBSCAN has groups of at least 2 % of the rows, the mixture (up to 30 components) is '
        "chosen by BIC and k-means by its silhouette; EVoC takes part on vectors. Right: the share of data sets whose "
        "number is found; for rows without groups, one cluster is right, and so is an answer that knet calls a guess. "
        "The column given is knet with the true number (of several, the largest). One seed.",
        ("ARI", "right"),
        aside=("given",),
    ),
    "mixed": Board(
        "Tables of numbers and categories",
        "knet gets the table through `Recipe(auto=True)`; all methods get the number of clusters.",
        ("ARI",),
        aside=("knet, numbers alone", "knet, 0/1 columns scaled"),
    ),
    "vectors": Board(
        "Vectors of texts and images",
        "All methods but EVoC get the number of clusters; the mixture gets 50 principal components, UMAP uses the "
        "cosine and five dimensions.",
        ("NMI", "ARI"),
        aside=("knet, cosine",),
    ),
    "new-rows": Board(
        "New rows",
        "Each data set is halved at random: a fit sees one half and labels the other. A vote of 15 neighbours, the "
        "nearest centroid and a ridge regression continue the start of the same fit, which gives them the same groups; "
        "k-means finds its own. The column start has the scores of the training rows.",
        ("NMI", "ARI"),
        aside=("start",),
    ),
    "calibration": Board(
        "Calibration",
        "Half of the rows train, the other half is judged: the calibration error of the largest probability (lower is "
        "better), and the AUC of right against wrong labels (higher is better).",
        ("error", "AUC"),
        lower=True,
    ),
    "known-labels": Board(
        "Known labels",
        "Some labels of each group are known, in three random draws; the score is that of the other rows.",
        ("ARI",),
        aside=("knet, no labels",),
    ),
    "missing-cells": Board(
        "Missing cells",
        "Cells are removed at random. knet gets the rows with their gaps, and rows that scikit-learn has filled; the "
        "column complete has the score without gaps.",
        ("ARI",),
        aside=("complete",),
    ),
    "speed": Board(
        "Speed",
        "Processor seconds of one fit on one thread, in a process of its own; lower is better.",
        ("seconds",),
        lower=True,
    ),
}
HEADER = """# Benchmarks

knet and other methods, in the same run, on the same rows. Labels are used for scores only. The command writes this
page from rows that it stores in `build/boards`:

```
make boards BATTERY=folder VECTORS=folder   # or one board: python -m benchmarks.boards --only suite --battery folder
make boards-quick                           # every board on small generated data, in minutes; page in build/
```

The folders have labelled data sets; nothing is downloaded, and without them generated data is used. Peers take part if
they are installed (`make peers`; `PEERS=` names an interpreter that has them). Each table has the
means over the data sets of a family; the best figure of a line is bold. The list after it has every data set on which
another method is better than knet by more than 0.005 in the first measure (seconds: 5 %).
"""


def write_page(store: Path, folder: Path) -> Path:
    """Write benchmarks.md from all boards that are stored, and return its path."""
    paths = {name: store / f"{name}.json" for name in BOARDS}
    stored = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in paths.items() if path.exists()}
    sections = [section(BOARDS[name], board["rows"]) for name, board in stored.items()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "benchmarks.md"
    path.write_text("\n\n".join([HEADER.strip(), *sections, origins(stored)]) + "\n", encoding="utf-8")
    return path


def section(board: Board, rows: list[Row]) -> str:
    """Return the section of a board: how it is measured, its table and its losses."""
    lost = losses(board, rows)
    title = f"Where knet is not first: {len(lost)} of {len(rows)}."
    return "\n\n".join(
        [f"## {board.title}", board.how, table(board, rows), title, *(["\n".join(lost)] if lost else [])]
    )


def origins(stored: dict[str, dict]) -> str:
    """Return when and with which code, data and packages the boards were measured."""
    titles: dict[str, list[str]] = {}
    for name, board in stored.items():
        packages = ", ".join(f"{package} {version}" for package, version in board["versions"].items())
        origin = f"{board['measured']} {board['amount'].capitalize()}. Versions: {packages}."
        titles.setdefault(origin, []).append(f"{BOARDS[name].title} ({board['minutes']:.1f} processor minutes)")
    lines = [f"- {'; '.join(boards)}. {origin}" for origin, boards in titles.items()]
    return "## When, and with what\n\n" + "\n".join(lines)


def table(board: Board, rows: list[Row]) -> str:
    """Return the means of the families and of all data sets, in Markdown."""
    methods = list(dict.fromkeys(method for row in rows for method in row["scores"]))
    families: dict[str, list[Row]] = {}
    for row in rows:
        families.setdefault(row["set"].rsplit("/", 1)[0] if "/" in row["set"] else row["set"], []).append(row)
    if len(families) > 1 and len(families) < len(rows):
        families["all"] = rows
    lines = [[" / ".join(board.measures), "data sets", *methods], ["---"] * (2 + len(methods))]
    for family, own in families.items():
        complete = {method for method in methods if all(method in row["scores"] for row in own)}
        means = {method: mean(row["scores"][method] for row in own if method in complete) for method in methods}
        lines.append([family, str(len(own)), *cells(board, means)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def mean(values: Iterable[list[float]]) -> list[float]:
    """Return the means of the measures; what was not measured is left out."""
    columns = zip(*values, strict=True)
    return [float(np.nanmean(column)) if np.isfinite(column).any() else float("nan") for column in columns]


def cells(board: Board, means: dict[str, list[float]]) -> list[str]:
    """Return the entries of a line, with the best figure of each measure among knet and its peers in bold type."""
    texts = []
    shown = {method: [f"{value:.3f}" for value in values] for method, values in means.items()}
    for method, values in shown.items():
        bold = list(values)
        for place, text in enumerate(values):
            peers = [v[place] for name, v in shown.items() if v and name not in board.aside and v[place] != "nan"]
            choose = min if board.lower and place == 0 else max
            if method not in board.aside and peers and text == choose(peers, key=float):
                bold[place] = f"**{text}**"
        texts.append(" / ".join(bold).replace("nan", "-") or "-")
    return texts


def losses(board: Board, rows: list[Row]) -> list[str]:
    """Return a line for every data set on which a peer is better than knet in the first measure."""
    lines = []
    for row in rows:
        own, sign = row["scores"]["knet"][0], -1 if board.lower else 1
        close = 0.05 * own if board.measures[0] == "seconds" else CLOSE
        peers = {
            name: values[0] for name, values in row["scores"].items() if name != "knet" and name not in board.aside
        }
        better = {name: value for name, value in peers.items() if sign * (value - own) > close}
        named = sorted(better.items(), key=lambda item: -sign * item[1])
        if named:
            lines.append(f"- {row['set']}: knet {own:.3f}; {'; '.join(f'{name} {value:.3f}' for name, value in named)}")
    return lines
