"""The page on speed from the rows of the benchmark: `python -m benchmarks.speed_page rows.jsonl docs [ratios.txt]`.

Writes the tables between the two marks of performance.md, and images/performance.png. The last file is the table of
`benchmarks.ratios`.
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.pages import stamps_of

BEGIN, END = "<!-- begin: written by benchmarks.speed_page -->", "<!-- end -->"
NAMES = {
    "knet": "knet",
    "kmeans": "k-means",
    "spectral": "spectral, dense",
    "spectralnet": "SpectralNet",
    "dec": "DEC (ClustPy)",
    "literal": "the paper's recipe",
}


def main(arguments: list[str] | None = None) -> None:
    """Write the page's tables and its plot."""
    parser = argparse.ArgumentParser(description="Make the page on speed from benchmark rows.")
    parser.add_argument("rows", type=Path)
    parser.add_argument("docs", type=Path)
    parser.add_argument("ratios", type=Path, nargs="?")
    options = parser.parse_args(arguments)
    rows = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    page = options.docs / "performance.md"
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    parts = {
        "Fits": fits,
        "A million rows": scale,
        "Other shapes": shapes,
        "All rows in training": full,
        "Labels": labels,
        "U-steps": u_steps,
        "Exact and approximate forms": forms,
    }
    written = {title: part(rows) for title, part in parts.items()}
    if options.ratios:
        written = {"Beside peers": beside_peers(options.ratios.read_text(encoding="utf-8"))} | written
    text = "\n\n".join(f"## {title}\n\n{part}" for title, part in written.items() if part)
    page.write_text(f"{head}{BEGIN}\n\n{stamps_of(rows)}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    plot(rows, options.docs / "images" / "performance.png")


def beside_peers(text: str) -> str:
    """Return the table of `benchmarks.ratios` below when it was measured."""
    measured, _, lines = text.partition("\n")
    note = "Processor seconds on one thread in the unit of a peer that ran in turn; the last lines: memory, and cores."
    return f"{measured} {note}\n\n```\n{lines.strip()}\n```"


def table(header: list[str], lines: list[list[str]]) -> str:
    """Return a table in Markdown, or nothing if it has no lines."""
    every = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in every) if lines else ""


def of_case(rows: list[dict], case: str) -> dict[tuple[str, str], dict]:
    """Return the rows of a case by data set and method."""
    return {(row["on"], row["method"]): row for row in rows if row["case"] == case}


def fits(rows: list[dict]) -> str:
    """Return processor seconds, and how many times as long as knet."""
    cells = of_case(rows, "fit")
    sets = list(dict.fromkeys(name for name, _ in cells))
    lines = []
    for method, label in NAMES.items():
        found = [cells.get((name, method)) for name in sets]
        if any(found):
            lines.append(
                [label, *(cell(row, cells.get((name, "knet"))) for name, row in zip(sets, found, strict=True))]
            )
    note = "Processor seconds of one fit at defaults, NMI in brackets, and how many times as long as knet.\n\n"
    return note + table(["", *sets], lines) if sets else ""


def cell(row: dict | None, knet: dict | None) -> str:
    """Return one entry of the table of fits; the time of a run that was stopped early is a lower bound."""
    if row is None:
        return "-"
    bound = "" if row["finished"] else ">= "
    score = "" if row["nmi"] is None else f" ({row['nmi']:.2f})"
    times = f", {bound}{ratio(row, knet)}x" if knet and row is not knet else ""
    return f"{bound}{row['cpu_seconds']:.2f}{score}{times}"


def ratio(row: dict, knet: dict) -> str:
    """Return how many times the processor seconds of knet a fit took."""
    times = row["cpu_seconds"] / knet["cpu_seconds"]
    return f"{times:.1f}" if times >= 1 else f"{times:.2g}"


def scale(rows: list[dict]) -> str:
    """Return growth with the rows, and the exponents of time and memory."""
    grown = sorted(of_case(rows, "scale").values(), key=lambda row: row["rows"])
    lines = [[f"{row['rows']:,}", *costs(row), f"{row['nmi']:.3f}"] for row in grown]
    text = table(["rows", *COSTS, "NMI"], lines)
    if len(grown) > 1:
        exponents = [f"{exponent(grown, key):.2f} ({what})" for key, what in GROWN.items()]
        text += f"\n\nExponents in the number of rows: {', '.join(exponents)}."
    return text


COSTS = ["seconds", "processor seconds", "peak MB beyond the data"]
GROWN = {"seconds": "time", "cpu_seconds": "processor time", "peak_mb": "memory"}


def costs(row: dict) -> list[str]:
    """Return time and memory of a row."""
    return [f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}", f"{row['peak_mb']:.0f}"]


def exponent(rows: list[dict], key: str) -> float:
    """Return the slope of log(value) on log(rows), to two digits."""
    slope = np.polyfit(np.log([row["rows"] for row in rows]), np.log([row[key] for row in rows]), 1)[0]
    return round(float(slope), 2) + 0.0  # no minus before a zero


def shapes(rows: list[dict]) -> str:
    """Return how well the groups in 100,000 rows of several shapes are found."""
    found = of_case(rows, "shape").values()
    lines = [[row["on"], f"{row['nmi']:.3f}", f"{row['lowest_nmi']:.3f}", *costs(row)] for row in found]
    return table(["five groups, 100,000 rows", "mean NMI of 3 seeds", "lowest", *COSTS], lines)


def full(rows: list[dict]) -> str:
    """Return the fits on all rows of RCV."""
    found = of_case(rows, "full").values()
    lines = [[NAMES[row["method"]], *costs(row), f"{row['nmi']:.2f}"] for row in found]
    return table(["10,000 rows of RCV", *COSTS, "NMI"], lines)


def labels(rows: list[dict]) -> str:
    """Return rows per second of predict, and the share of its time that the matrix products alone take."""
    lines = []
    for row in of_case(rows, "predict").values():
        shares = [f"{row[key]:.2f}" for key in ("share_of_products", "share_of_products_cpu")]
        lines.append([row["on"], f"{row['rows_per_second']:,.0f}", *shares])
    return table(
        ["a million rows", "rows per second", "matrix products, share of the time", "of the processor time"], lines
    )


def u_steps(rows: list[dict]) -> str:
    """Return the time of a U-step by both methods, and its share of the eigen step's gain."""
    cells = of_case(rows, "ustep")
    lines = []
    for (size, method), row in cells.items():
        gain, best = (step["value"] - step["before"] for step in (row, cells.get((size, "eig"), row)))
        milliseconds = [f"{1000 * row[key]:.0f}" for key in ("seconds", "cpu_seconds")]
        lines.append([f"{row['rows']:,}", row["operator"], method, *milliseconds, f"{gain / best:.2f}"])
    return table(["rows", "operator", "step", "ms", "processor ms", "share of the eigen step's gain"], lines)


def forms(rows: list[dict]) -> str:
    """Return mean NMI by form of the Laplacian and data set."""
    cells = of_case(rows, "form")
    sets, found = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    lines = [[form, *(mean_nmi(cells.get((name, form))) for name in sets)] for form in found]
    note = 'The paper\'s settings, in which every iteration takes a U-step; sma is `u_update="sma"`.\n\n'
    return note + table(["mean NMI of 3 seeds", *sets], lines) if lines else ""


def mean_nmi(row: dict | None) -> str:
    """Return the mean NMI of a row, if there is one."""
    return "-" if row is None else f"{row['nmi']:.3f}"


def plot(rows: list[dict], path: Path) -> None:
    """Draw processor seconds of the fits by method, and the growth with the rows."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    found = list(of_case(rows, "fit").values())
    sets = list(dict.fromkeys(row["on"] for row in found))
    for marker, (method, label) in zip("os^Dv*", NAMES.items(), strict=True):
        own = [row for row in found if row["method"] == method]
        if not own:
            continue
        places = [sets.index(row["on"]) for row in own]
        left.plot(places, [row["cpu_seconds"] for row in own], marker, label=label, markersize=6)
    left.set(yscale="log", xticks=range(len(sets)), xticklabels=sets, ylabel="processor seconds of one fit")
    left.legend(fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    grown = sorted(of_case(rows, "scale").values(), key=lambda row: row["rows"])
    sizes = [row["rows"] for row in grown]
    right.plot(sizes, [row["cpu_seconds"] for row in grown], "o-", label="processor seconds, fit and labels")
    right.plot(sizes, [row["peak_mb"] for row in grown], "s--", label="peak MB beyond the data")
    right.set(xscale="log", yscale="log", xlabel="rows (10 columns, 5 spiral arms)")
    right.legend(fontsize=8)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
