"""Whether the measured pages describe the present code: `python -m benchmarks.pages [--mark]`.

A command that measures writes a stamp: the date, the commit, and a short hash of each part of `src/knet` that decides
the figures. Comments, docstrings and annotations of types do not count. If a part has changed since, the page has to
say so below its title; `--mark` writes that sentence, or removes it if it is no longer true.
"""

import argparse
import ast
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FIT = ("rows", "prepare", "start", "train", "model", "estimator")
FILES = ("files", "rows", "model", "tables", "dask", "cli")
PAGES = {"benchmarks.md": FIT, "performance.md": FIT, "reproduction.md": FIT, "reliability.md": FILES}
SECTION_END = "<!-- end -->"  # after each section that a command writes into a page of which the rest is by hand
STAMP = re.compile(r"Measured on \S+ at commit .+? \(sources: (.+?)\)\.")
NOTICE = re.compile(r"^> \*\*Older than the code\.\*\*.*\n\n", re.MULTILINE)
NOT_RUN = ("annotation", "returns", "type_comment", "type_params", "kind")


def source_hash(part: str) -> str:
    """Return a short hash of what a folder or module of the package does; it is the same for every Python version."""
    place = ROOT / "src" / "knet" / part
    paths = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    texts = [f"{path.name} {meaning(ast.parse(path.read_text(encoding='utf-8')))}" for path in paths]
    return sha256("\n".join(texts).encode()).hexdigest()[:8]


def meaning(node: object) -> str:
    """Return a syntax tree as text, without docstrings, annotations, and fields that are empty."""
    if isinstance(node, list):
        return f"[{','.join(meaning(item) for item in node if not is_docstring(item))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.JoinedStr):  # Python 3.12 may end it with an empty text
        node.values = [part for part in node.values if not (isinstance(part, ast.Constant) and part.value == "")]
    fields = {name: value for name, value in ast.iter_fields(node) if name not in NOT_RUN and value not in (None, [])}
    return f"{type(node).__name__}({','.join(f'{name}={meaning(value)}' for name, value in fields.items())})"


def is_docstring(node: object) -> bool:
    """Return whether a statement is a text and nothing else."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def stamp(parts: Sequence[str] = FIT) -> str:
    """Return the sentence that says when and with which code something is measured: now."""
    sources = ", ".join(f"{part} {source_hash(part)}" for part in parts)
    return f"Measured on {datetime.now(UTC).date()} at commit {commit()} (sources: {sources})."


def stamps_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the stamps of stored rows; nothing if a row has none."""
    found = dict.fromkeys(row.get("measured", "") for row in rows)
    return "" if "" in found else " ".join(found)


def commit() -> str:
    """Return the commit of the code, and whether files of it have changes."""
    found = _git("rev-parse", "--short=10", "HEAD").strip() or "unknown"
    return f"{found} with changes" if _git("status", "--porcelain", "src", "benchmarks") else found


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return ""


def changed_parts(text: str, parts: Sequence[str]) -> list[str]:
    """Return which parts have changed since a page was measured: all of them if a section has no stamp."""
    stamps = STAMP.findall(text)
    if len(stamps) < max(1, text.count(SECTION_END)):
        return list(parts)
    written = {tuple(entry.split()) for sources in stamps for entry in sources.split(", ")}
    return sorted({part for part, old in written if source_hash(part) != old})


def marked(text: str, parts: Sequence[str]) -> str:
    """Return a page with the notice that it needs below its title, or without one."""
    text, changed = NOTICE.sub("", text), changed_parts(text, parts)
    if not changed:
        return text
    notice = (
        f"> **Older than the code.** Some figures on this page were measured before the last change of "
        f"`src/knet`: {', '.join(changed)}. They may be different now."
    )
    title, rest = text.split("\n\n", 1)
    return f"{title}\n\n{notice}\n\n{rest}"


def main(arguments: list[str] | None = None) -> int:
    """Name the pages whose notice is missing or no longer true, or mend them; return the exit code."""
    parser = argparse.ArgumentParser(prog="pages", description="Whether the measured pages describe the present code.")
    parser.add_argument("--mark", action="store_true", help="write or remove the notices")
    options = parser.parse_args(arguments)
    texts = {ROOT / "docs" / name: marked((ROOT / "docs" / name).read_text("utf-8"), PAGES[name]) for name in PAGES}
    wrong = {path: text for path, text in texts.items() if text != path.read_text("utf-8")}
    for path, text in wrong.items():
        print(f"{path.name}: {'marked' if options.mark else 'run python -m benchmarks.pages --mark'}")
        if options.mark:
            path.write_text(text, encoding="utf-8")
    return 1 if wrong and not options.mark else 0


if __name__ == "__main__":
    raise SystemExit(main())
