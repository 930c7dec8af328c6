"""The tables of docs/reliability.md, each between two comments that name it."""

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages import FILES, stamp

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def markdown(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table, with a last row of totals if there are several rows and counts."""
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    totals = [
        sum(values) if all(isinstance(value, int) for value in values) else "" for values in zip(*rows, strict=True)
    ]
    if len(rows) > 1:
        lines.append(f"| {' | '.join(['all', *(_cell(value) for value in totals[1:])])} |")
    return "\n".join(lines)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def write_section(name: str, text: str) -> None:
    """Replace a section of the page; it gets the date and the code of this run."""
    page = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        raise ValueError(f"{PAGE.name} has no section {name!r}.")
    PAGE.write_text(
        pattern.sub(lambda found: f"{found[1]}{text}\n\n{stamp(FILES)}\n{found[2]}", page), encoding="utf-8"
    )
