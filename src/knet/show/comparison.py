"""The page of a comparison of two clusterings: changes, the flow between clusters, moves and their reasons."""

from html import escape
from io import BytesIO
from pathlib import Path

from knet.explore.compare import Comparison, moves_table
from knet.files import check_new, write_whole
from knet.model.display import html_list

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#222;"
    "background:#fff}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .8rem;text-align:left;border-bottom:1px solid "
    "#ddd}caption{text-align:left;font-weight:600}svg{max-width:100%;height:auto}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}td,th{border-color:#444}"
    "svg{background:#fff;border-radius:6px}}"
)


def report(comparison: Comparison, path: Path, *, overwrite: bool = False) -> None:
    """Write a comparison to one HTML file that loads nothing from elsewhere; names of clusters are escaped."""
    check_new(path, overwrite=overwrite)
    title, *changes = repr(comparison).splitlines()
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>Two clusterings compared</title><style>{STYLE}</style><h1>Two clusterings compared</h1>",
        f"<p>{escape(title)}.</p>{html_list(changes)}",
        _flow(comparison),
        moves_table("Rows that moved", comparison.moves) if comparison.moves else "<p>No row moved.</p>",
        "</html>\n",
    ]
    write_whole(path, "".join(parts).encode(), overwrite=overwrite)


def _flow(comparison: Comparison) -> str:
    """Return the picture of the flow as SVG."""
    from matplotlib.figure import Figure

    from knet.show import plots

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    plots.flow(comparison, figure.subplots())
    content = BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None})
    svg = content.getvalue().decode()
    return svg[svg.index("<svg") :]
