"""The page on speed from the rows of the benchmark: `python -m benchmarks.speed_page rows.jsonl docs`.

Writes the tables between the two marks of performance.md, and images/performance.png.
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

BEGIN, END = "<!-- begin: written by benchmarks.speed_page -->", "<!-- end -->"
NAMES = {
    "knet": "knet",
    "kmeans": "k-means",
    "spectral": "spectral, dense",
    "spectralnet": "SpectralNet",
    "dec": "DEC (ClustPy)",
    "literal": "the paper's recipe",
}
NOTED = ("nmi", "lowest_nmi", "value", "before", "u_error", "share_of_products", "share_of_products_cpu")


def main() -> None:
    """Write the page's tables and its plot."""
    parser = argparse.ArgumentParser(description="Make the page on speed from benchmark rows.")
    parser.add_argument("rows", type=Path)
    parser.add_argument("docs", type=Path)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    page = options.docs / "performance.md"
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    tables = [fits(rows), others(rows), scale(rows)]
    text = "\n\n".join(table for table in tables if table)
    page.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    plot(rows, options.docs / "images" / "performance.png")


def fits(rows: list[dict]) -> str:
    """Return the table of fits: processor seconds, and how many times as long as knet."""
    cells = {(row["on"], row["method"]): row for row in rows if row["case"] == "fit"}
    sets = list(dict.fromkeys(name for name, _ in cells))
    lines = ["Processor seconds of one fit at defaults, NMI in brackets, and how many times as long as knet.", ""]
    lines += [f"| | {' | '.join(sets)} |", f"|---|{'---|' * len(sets)}"]
    for method, label in NAMES.items():
        found = [cells.get((name, method)) for name in sets]
        if any(found):
            texts = [cell(row, cells.get((name, "knet"))) for name, row in zip(sets, found, strict=True)]
            lines.append(f"| {label} | {' | '.join(texts)} |")
    return "\n".join(lines) if sets else ""


def cell(row: dict | None, knet: dict | None) -> str:
    """Return one entry of the table of fits; a run that was cut short counts as at least its time."""
    if row is None:
        return "-"
    bound = "" if row["finished"] else ">= "
    score = "" if row["nmi"] is None else f" ({row['nmi']:.2f})"
    ratio = f", {bound}{row['cpu_seconds'] / knet['cpu_seconds']:.1f}x" if knet and row is not knet else ""
    return f"{bound}{row['cpu_seconds']:.2f}{score}{ratio}"


def others(rows: list[dict]) -> str:
    """Return the table of the remaining cases."""
    lines = ["| case | method | seconds | processor seconds | peak MB | |", "|---|---|---|---|---|---|"]
    for row in rows:
        if row["case"] in ("fit", "scale"):
            continue
        notes = [f"{row['rows_per_second']:,.0f} rows/s"] if "rows_per_second" in row else []
        notes += [f"{key} {row[key]:.4f}" for key in NOTED if row.get(key) is not None]
        lines.append(
            f"| {row['case']} {row['on']} | {row['method']} | {row['seconds']:.2f} | {row['cpu_seconds']:.2f} | "
            f"{row['peak_mb']:.0f} | {', '.join(notes)} |"
        )
    return "\n".join(lines) if len(lines) > 2 else ""


def scale(rows: list[dict]) -> str:
    """Return the table of growth with the rows, and the exponents of time and memory."""
    grown = sorted((row for row in rows if row["case"] == "scale"), key=lambda row: row["rows"])
    if not grown:
        return ""
    lines = ["| rows | seconds | processor seconds | peak MB beyond the data | NMI |", "|---|---|---|---|---|"]
    for row in grown:
        lines.append(
            f"| {row['rows']:,} | {row['seconds']:.1f} | {row['cpu_seconds']:.1f} | {row['peak_mb']:.0f} | "
            f"{row['nmi']:.3f} |"
        )
    if len(grown) > 1:
        exponents = [f"{exponent(grown, key):.2f} ({what})" for key, what in GROWN.items()]
        lines += ["", f"Exponents in the number of rows: {', '.join(exponents)}."]
    return "\n".join(lines)


GROWN = {"seconds": "time", "cpu_seconds": "processor time", "peak_mb": "memory"}


def exponent(rows: list[dict], key: str) -> float:
    """Return the slope of log(value) on log(rows)."""
    return float(np.polyfit(np.log([row["rows"] for row in rows]), np.log([row[key] for row in rows]), 1)[0])


def plot(rows: list[dict], path: Path) -> None:
    """Draw processor seconds of the fits by method, and the growth with the rows."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    found = [row for row in rows if row["case"] == "fit"]
    sets = list(dict.fromkeys(row["on"] for row in found))
    for method, label in NAMES.items():
        own = [row for row in found if row["method"] == method]
        if not own:
            continue
        places = [sets.index(row["on"]) for row in own]
        left.plot(places, [row["cpu_seconds"] for row in own], "o", label=label, markersize=6)
    left.set(yscale="log", xticks=range(len(sets)), xticklabels=sets, ylabel="processor seconds of one fit")
    left.legend(fontsize=8)
    grown = sorted((row for row in rows if row["case"] == "scale"), key=lambda row: row["rows"])
    sizes = [row["rows"] for row in grown]
    right.plot(sizes, [row["cpu_seconds"] for row in grown], "o-", label="processor seconds, fit and labels")
    right.plot(sizes, [row["peak_mb"] for row in grown], "s--", label="peak MB beyond the data")
    right.set(xscale="log", yscale="log", xlabel="rows (10 columns, 5 spiral arms)")
    right.legend(fontsize=8)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
