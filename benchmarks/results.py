"""Results on disk: one JSON line per run, appended as soon as it is known, so that a stopped run can be continued."""

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.pages import stamp

PACKAGES = (
    *(
        "knet-clustering",
        "torch",
        "scikit-learn",
        "numpy",
        "pandas",
        "clustpy",
        "spectralnet",
        "umap-learn",
        "genieclust",
    ),
    *("evoc", "kmodes"),
)


@dataclass(frozen=True, order=True)
class Job:
    """The identity of a run: the part of the reproduction, the algorithm, the data set, the seed, and a setting."""

    part: str
    algorithm: str
    dataset: str
    seed: int
    setting: str = ""  # lambda, in the parts that vary it


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


class Store:
    """A file of results, read once and appended to.

    Parameters
    ----------
    path : Path
        The file; it and its folder are created with the first result.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.measured = stamp()
        self.rows: dict[Job, dict[str, Any]] = {}
        for row in read_rows(path):
            self.rows[job_of(row)] = row

    def is_done(self, job: Job) -> bool:
        """Return whether a run has succeeded; a run that failed or could not start is tried again."""
        return self.rows.get(job, {}).get("status") == "ok"

    def add(self, job: Job, **result: Any) -> None:
        """Append one result."""
        row = {**vars(job), **result, "measured": self.measured}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            if file.tell() and not _ends_with_newline(file):
                file.write(b"\n")  # an interrupted run left half a line
            file.write(json.dumps(row, allow_nan=True).encode() + b"\n")
        self.rows[job] = row


def _ends_with_newline(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a results file, without half-written lines; none if there is no file."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def job_of(row: dict[str, Any]) -> Job:
    """Return the identity of a row."""
    return Job(row["part"], row["algorithm"], row["dataset"], row["seed"], row["setting"])


def succeeded(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last row of every run that succeeded."""
    latest = {job_of(row): row for row in rows}
    return [row for row in latest.values() if row["status"] == "ok"]
