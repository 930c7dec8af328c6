"""How results are shown: rounded numbers, tables for notebooks, and DataFrames."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from knet.arrays import Frame


def rounded(value: object) -> str:
    """Return a value as short text: numbers with three significant digits, a dash for NaN and None."""
    if value is None or value != value:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table for a notebook; all text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{escape(rounded(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_list(texts: Iterable[str]) -> str:
    """Return sentences as a list for a notebook, escaped; nothing if there are none."""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul>{items}</ul>" if items else ""


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table as lines of text, with columns of equal width."""
    lines = [list(header), *([rounded(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def to_frame(table: Sequence[Mapping[str, object]] | Mapping[str, object]) -> Frame:
    """Return a list of rows, or columns, as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError("to_frame needs pandas. Install it with: pip install 'knet-clustering[tables]'") from error
    return pd.DataFrame(table)
