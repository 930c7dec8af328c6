"""Speed and memory, each case in a child process: `python -m benchmarks.speed FOLDER -o rows.jsonl`.

FOLDER holds the paper's files. One JSON row per case: the median of repeats in seconds, processor seconds, peak memory
beyond the data, NMI. Peers that are not installed are skipped with a message; `--peers-python` names an interpreter
that has them. `python -m benchmarks.speed_page rows.jsonl docs` makes the page and the plot.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.pages import stamp
from benchmarks.speed_cases import case_names, run_case

PEERS = ("spectralnet", "dec")
ONCE = ("literal", *PEERS)  # too slow to repeat
SEEDED = ("form", "shape")  # repeated inside, with other seeds
ONE_THREAD = ("fit", "form")  # compared by processor time, which includes waiting for a second thread


def main() -> None:
    """Run the cases, or one of them as the child."""
    parser = argparse.ArgumentParser(description="Speed and peak memory of knet and its peers.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="comma-separated beginnings of case names")
    parser.add_argument("--limit", type=float, default=900, help="seconds after which the literal recipe is cut short")
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has spectralnet and clustpy")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(run_case(options.case, options.folder, options.limit)))
        return
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in case_names() if name.startswith(tuple(options.only.split(",")))]
    rows, measured = [], stamp()
    for name in chosen:
        row = repeated(name, options)
        print(json.dumps(row) if row else f"{name}: skipped, it did not run", flush=True)
        if row:
            rows.append(row | {"measured": measured})
        if options.out:
            options.out.write_text("".join(json.dumps(line) + "\n" for line in rows), encoding="utf-8")


def repeated(name: str, options: argparse.Namespace) -> dict | None:
    """Return the row of a case with the median of its repeats; None if it could not run."""
    kind, _, method = name.split(":")
    env = os.environ | ({"OMP_NUM_THREADS": "1"} if kind in ONE_THREAD else {})
    rows = []
    for _ in range(1 if method in ONCE or kind in SEEDED else options.repeats):
        python = options.peers_python if method in PEERS else sys.executable
        command = [python, "-m", "benchmarks.speed", str(options.folder), "--case", name, "--limit", str(options.limit)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        if done.returncode != 0:
            print(done.stderr.strip().splitlines()[-1:] or name, file=sys.stderr)
            return None
        rows.append(json.loads(done.stdout.strip().splitlines()[-1]))
    middle = {key: median(row[key] for row in rows) for key, value in rows[0].items() if isinstance(value, float)}
    return rows[0] | middle | {"repeats": len(rows)}


if __name__ == "__main__":
    main()
