"""Write docs/reproduction.md from a results file: `python -m benchmarks.render RESULTS --to FOLDER`.

For each cell of the paper's seven tables: the paper's figure, ours, the difference, and the letter of its cause.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import paper_numbers as printed
from benchmarks.algorithms import ALGORITHMS
from benchmarks.causes import CAUSES, NMI_AGREES, NmiCell, lambda_cause, nmi_cause, sigma_cause, time_cause
from benchmarks.pages import stamps_of
from benchmarks.plan import LARGE, ROWS_PERCENT, Plan
from benchmarks.prose import FIGURES, FOOTER, HEADER, SETTINGS
from benchmarks.results import job_of, read_rows, succeeded

NAMES = {
    "moon": "Moon",
    "spiral1": "Spiral1",
    "spiral2": "Spiral2",
    "cancer": "Cancer",
    "wine": "Wine",
    "rcv": "RCV",
    "face": "Face",
}
OURS = ("knet-eig", "knet-sma", "knet")
PEERS = tuple(name for name in ALGORITHMS if name not in OURS and name != "kmeans-raw")


class Measured:
    """The results, by part, algorithm, data set and setting."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._runs: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        for row in succeeded(rows):
            self._runs[row["part"], row["algorithm"], row["dataset"], row["setting"]].append(row)
        self._reasons = {(r["part"], r["algorithm"], r["dataset"]): r["status"] for r in rows if r["status"] != "ok"}
        self.stamps = stamps_of(row for row in succeeded(rows) if row["algorithm"] in OURS)
        self.versions: dict[str, str] = {}
        for row in rows:
            self.versions |= row.get("versions", {})
        self.jobs = {job_of(row) for row in succeeded(rows)}
        self.runs = sum(map(len, self._runs.values()))
        self.seconds = {
            key: sum(row["seconds"].get(key, 0.0) for row in succeeded(rows)) for key in ("prep", "run", "wall")
        }

    def values(self, part: str, algorithm: str, dataset: str, measure: str, setting: str = "") -> list[float]:
        """Return one figure over the seeds."""
        runs = self._runs[part, algorithm, dataset, setting]
        return [row["seconds" if measure in ("prep", "run") else "metrics"][measure] for row in runs]

    def facts(self, part: str, algorithm: str, dataset: str) -> dict[str, float]:
        """Return all figures of the last run."""
        runs = self._runs[part, algorithm, dataset, ""]
        return dict(runs[-1]["metrics"]) if runs else {}

    def origin(self, dataset: str) -> str:
        """Return the source of a data set."""
        runs = self._runs["datasets", "summary", dataset, ""]
        return str(runs[-1]["origin"])

    def why_empty(self, part: str, algorithm: str, dataset: str) -> str:
        """Return the reason why there is no figure."""
        return self._reasons.get((part, algorithm, dataset), "not run")


def write_report(results: Path, folder: Path) -> Path:
    """Write reproduction.md into a folder, whole or not at all, and return its path."""
    measured = Measured(read_rows(results))
    sections = [
        header(measured),
        summary(measured),
        losses(measured),
        dataset_table(measured),
        nmi_table(measured, "full"),
        time_table(measured, "full"),
        nmi_table(measured, "oos"),
        time_table(measured, "oos"),
        *(lambda_table(measured, dataset) for dataset in ("wine", "spiral1")),
        alternatives(measured),
        causes(),
        figures(measured, folder),
        SETTINGS,
        FOOTER,
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path, unfinished = folder / "reproduction.md", folder / ".reproduction.md.part"
    unfinished.write_text("\n\n".join(section.strip() for section in sections if section) + "\n", encoding="utf-8")
    unfinished.replace(path)
    return path


def header(measured: Measured) -> str:
    """Return the introduction of the page, with the number of runs behind it."""
    minutes = {key: seconds / 60 for key, seconds in measured.seconds.items()}
    planned = set(Plan().jobs())
    done = len(planned & measured.jobs)
    return HEADER.format(
        runs=measured.runs,
        cpu=minutes["prep"] + minutes["run"],
        wall=minutes["wall"],
        planned=len(planned),
        done=done,
        rest="" if done == len(planned) else "; the number of seeds behind a figure is in brackets",
        versions=", ".join(f"{name} {version}" for name, version in measured.versions.items()),
        stamps=measured.stamps,
    )


def table(header: list[str], rows: Iterable[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def spread(values: list[float], scale: float = 100, digits: int = 1) -> str:
    """Return mean and deviation over seeds, and their number in brackets."""
    mean, deviation = scale * np.mean(values), scale * np.std(values)
    return f"{mean:.{digits}f} ± {deviation:.{digits}f} ({len(values)})"


def dataset_table(measured: Measured) -> str:
    """Return Table 1: rows, clusters, columns and width, paper and ours."""
    rows = []
    for name, (n, c, d, kind, sigma) in printed.SUMMARY.items():
        found = {m: measured.values("datasets", "summary", name, m) for m in ("rows", "clusters", "columns", "median")}
        if not found["rows"]:
            rows.append(
                [NAMES[name], f"{n} / {c} / {d}", measured.why_empty("datasets", "summary", name), kind, "", ""]
            )
            continue
        shape = " / ".join(f"{found[m][0]:.0f}" for m in ("rows", "clusters", "columns"))
        factor = 0.1 if kind == "Geometric Shape" else 1.0
        width = factor * found["median"][0]
        cell = f"{width:.4f} ({width - sigma:+.4f}) {sigma_cause(width - sigma)}".strip()
        shape += f", {measured.origin(name)}"
        rows.append([NAMES[name], f"{n} / {c} / {d}", shape, kind, f"{sigma:g}", cell])
    columns = ["data set", "N / c / d, paper", "ours", "kind", "sigma, paper", "ours (difference) cause"]
    text = "Ours is the median distance between scaled rows, times 0.1 for Moon and the spirals, as in the preset."
    return f"## Table 1: the data sets\n\n{text}\n\n{table(columns, rows)}"


def nmi_table(measured: Measured, part: str) -> str:
    """Return Table 2 or 4: NMI of every algorithm of the paper on every data set."""
    full = part == "full"
    algorithms = printed.FULL_ALGORITHMS if full else printed.OOS_ALGORITHMS
    blocks = []
    for dataset in printed.DATASETS:
        rows = [_nmi_row(measured, part, name, dataset, i) for i, name in enumerate(algorithms)]
        share = "" if full else f", trained on {printed.SUBSET_PERCENT[dataset]} % of the rows"
        header = [f"{NAMES[dataset]}{share}", "paper", "ours", "difference", "cause"]
        blocks.append(table(header, rows))
    if not full:
        blocks.append(_large_table(measured))
    title = "## Table 2: NMI, all rows" if full else "## Table 4: NMI, trained on a subset, scored on all rows"
    return "\n\n".join([title, "NMI in percent, mean ± deviation (seeds).", *blocks])


def _nmi_row(measured: Measured, part: str, algorithm: str, dataset: str, column: int) -> list[str]:
    title, ours = ALGORITHMS[algorithm].title, measured.values(part, algorithm, dataset, "nmi")
    if part == "full":
        paper, deviation = printed.FULL_NMI[dataset][column]
        shown = f"{paper:g} ± {deviation:g}"
    else:
        value = printed.OOS_NMI[dataset][column]
        if value is None:
            return [title, "fails", spread(ours) if ours else measured.why_empty(part, algorithm, dataset), "", "u"]
        paper, deviation, shown = value, 0.0, f"{value:g}"
    if not ours:
        return [title, shown, measured.why_empty(part, algorithm, dataset), "", ""]
    unscaled = measured.values(part, "kmeans-raw", dataset, "nmi")
    percent = [[100 * value for value in values] for values in (ours, unscaled)]
    cell = NmiCell(part, algorithm, dataset, paper, deviation, *percent)
    return [title, shown, spread(ours), f"{cell.difference:+.1f}", nmi_cause(cell)]


def _large_table(measured: Measured) -> str:
    """Return NMI on Spiral2, trained on one percent of its rows, which the paper shows as a figure."""
    rows = []
    for algorithm in LARGE:
        values = measured.values("oos", algorithm, "spiral2", "nmi")
        cell = spread(values) if values else measured.why_empty("oos", algorithm, "spiral2")
        rows.append([ALGORITHMS[algorithm].title, cell])
    return table([f"Spiral2, trained on {ROWS_PERCENT['spiral2']} % (not in the paper's table)", "ours"], rows)


def time_table(measured: Measured, part: str) -> str:
    """Return Table 3 or 5: seconds of preparation and run."""
    full = part == "full"
    columns = printed.TIME_COLUMNS if full else printed.OOS_TIME_COLUMNS
    numbers = printed.FULL_TIME if full else printed.OOS_TIME
    blocks = []
    for dataset in printed.DATASETS:
        rows = []
        for (algorithm, phase), paper in zip(columns, numbers[dataset], strict=True):
            ours = measured.values(part, algorithm, dataset, phase)
            title = f"{ALGORITHMS[algorithm].title}, {'Prep' if phase == 'prep' else 'RT'}"
            if not ours:
                rows.append([title, f"{paper:g}", measured.why_empty(part, algorithm, dataset), "", ""])
                continue
            mean = float(np.mean(ours))
            cells = [f"{paper:g}", f"{mean:.2f}", f"{mean - paper:+.2f}", time_cause(algorithm, phase)]
            rows.append([title, *cells])
        blocks.append(table([NAMES[dataset], "paper", "ours", "difference", "cause"], rows))
    title = "## Table 3: seconds, all rows" if full else "## Table 5: seconds, trained on a subset"
    note = "CPU seconds of one thread, mean over seeds. Prep is preparation, RT the run."
    return "\n\n".join([title, note, *blocks])


def lambda_table(measured: Measured, dataset: str) -> str:
    """Return Table 6 or 7: HSIC, error of the autoencoder and NMI by lambda."""
    rows = []
    for lam, by_update in printed.LAMBDA[dataset].items():
        for algorithm, paper in zip(("knet-eig", "knet-sma"), by_update, strict=True):
            cells = [f"{lam:g}", ALGORITHMS[algorithm].title]
            for measure, value in zip(("hsic", "ae", "nmi"), paper, strict=True):
                ours = measured.values("lambda", algorithm, dataset, measure, repr(lam))
                cells += [f"{value:g}", *_lambda_cell(ours, value, dataset, measure)]
            rows.append(cells)
    header = ["lambda", ""]
    for name in ("HSIC", "AE error", "NMI"):
        header += [f"{name}, paper", "ours (difference) cause"]
    number = 6 if dataset == "wine" else 7
    return f"## Table {number}: lambda on {NAMES[dataset]}\n\nMeans over seeds.\n\n{table(header, rows)}"


def _lambda_cell(ours: list[float], paper: float, dataset: str, measure: str) -> list[str]:
    if not ours:
        return ["not run"]
    mean = float(np.mean(ours))
    agrees = abs(mean - paper) <= (NMI_AGREES / 100 if measure == "nmi" else 0.05 * max(1.0, paper))
    return [f"{mean:.3f} ({mean - paper:+.3f}) {'' if agrees else lambda_cause(dataset, measure)}".strip()]


def alternatives(measured: Measured) -> str:
    """Return Table A: every algorithm that was run, on every data set, with the best in bold."""
    blocks = ["## Table A: comparison with other algorithms"]
    for part, text in (("full", "NMI, all rows, / CPU seconds"), ("oos", "NMI, trained on the subset, / CPU seconds")):
        names = [name for name in ALGORITHMS if part == "full" or ALGORITHMS[name].new_rows]
        means = {(a, d): _mean(measured.values(part, a, d, "nmi")) for a in names for d in printed.DATASETS}
        rows = []
        for algorithm in names:
            cells = [ALGORITHMS[algorithm].title]
            for dataset in printed.DATASETS:
                best = max((means[a, dataset] for a in names), default=float("nan"))
                cells.append(_alternative_cell(measured, part, algorithm, dataset, best))
            rows.append(cells)
        blocks.append(table([text, *(NAMES[d] for d in printed.DATASETS)], rows))
    return "\n\n".join(blocks)


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else -1.0


def _alternative_cell(measured: Measured, part: str, algorithm: str, dataset: str, best: float) -> str:
    values = measured.values(part, algorithm, dataset, "nmi")
    if not values:
        return measured.why_empty(part, algorithm, dataset)
    seconds = np.mean(
        np.add(*(measured.values(part, algorithm, dataset, phase) for phase in ("prep", "run"))),
    )
    text = spread(values)
    shown = f"**{text}**" if round(1000 * _mean(values)) >= round(1000 * best) else text
    return f"{shown} / {seconds:.1f}"


def summary(measured: Measured) -> str:
    """Return how many cells agree with the paper, for our own algorithm."""
    lines = []
    for algorithm in ("knet-eig", "knet-sma"):
        for part, names in (("full", printed.FULL_ALGORITHMS), ("oos", printed.OOS_ALGORITHMS)):
            column, differences, seeds = names.index(algorithm), [], 0
            for dataset in printed.DATASETS:
                ours = measured.values(part, algorithm, dataset, "nmi")
                paper = printed.FULL_NMI[dataset][column][0] if part == "full" else printed.OOS_NMI[dataset][column]
                seeds = max(seeds, len(ours))
                if ours and paper is not None:
                    differences.append((NAMES[dataset], 100 * float(np.mean(ours)) - paper))
            below = [f"{name} {d:+.1f}" for name, d in differences if d < -NMI_AGREES]
            where = "all rows" if part == "full" else "trained on a subset"
            reached = len(differences) - len(below)
            short = f"; below on {', '.join(below)}" if below else ""
            lines.append(
                f"- {ALGORITHMS[algorithm].title}, {where}: within {NMI_AGREES:g} points of the paper or above on "
                f"{reached} of {len(differences)} data sets{short} (seeds: {seeds})."
            )
    return "## Agreement with the paper\n\nWith the paper's settings (`knet.presets.paper`):\n\n" + "\n".join(lines)


def losses(measured: Measured) -> str:
    """Return the data sets on which another algorithm is better than the default of knet, on average."""
    lines = []
    for part, where in (("full", "all rows"), ("oos", "trained on a subset")):
        for dataset in printed.DATASETS:
            ours = measured.values(part, "knet", dataset, "nmi")
            others = {a: _mean(measured.values(part, a, dataset, "nmi")) for a in PEERS}
            better = {a: v for a, v in others.items() if ours and v > np.mean(ours) + 0.005}
            if better:
                named = ", ".join(f"{ALGORITHMS[a].title} {100 * v:.1f}" for a, v in _descending(better))
                lines.append(f"- {NAMES[dataset]}, {where}: KNet default {100 * np.mean(ours):.1f}; {named}.")
    if not lines:
        lines = ["- None by more than half a point, in these runs."]
    return "## Losses of the default\n\nAlgorithms whose mean NMI is higher by more than half a point:\n\n" + "\n".join(
        lines
    )


def _descending(scores: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda item: -item[1])


def causes() -> str:
    """Return the causes by letter."""
    lines = [f"- **{letter}** {text}" for letter, text in CAUSES.items()]
    intro = f"No letter: within {NMI_AGREES:g} points of NMI, or 5 % in the lambda tables."
    return f"## Causes\n\n{intro}\n\n" + "\n".join(lines)


def figures(measured: Measured, folder: Path) -> str:
    """Return the pictures that were drawn, with captions."""
    blocks = []
    for name, (caption, dataset) in FIGURES.items():
        if not (folder / "images" / "reproduction" / f"{name}.png").exists():
            continue
        facts = measured.facts("figures", name, dataset)
        blocks.append(f"![{caption.split(':')[0]}](images/reproduction/{name}.png)\n\n*{caption.format(**facts)}*")
    return "\n\n".join(["## Figures", *blocks]) if blocks else ""


def main(arguments: list[str] | None = None) -> int:
    """Render a results file; return the exit code."""
    parser = argparse.ArgumentParser(prog="render", description="Write reproduction.md from a results file.")
    parser.add_argument("results", type=Path)
    parser.add_argument("--to", type=Path, default=Path(__file__).parents[1] / "docs")
    options = parser.parse_args(arguments)
    if not options.results.exists():
        print(f"render: there is no results file {str(options.results)!r}", file=sys.stderr)
        return 2
    print(write_report(options.results, options.to))
    return 0


if __name__ == "__main__":
    sys.exit(main())
