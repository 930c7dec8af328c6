"""The Python blocks of the README and of docs/ run as printed, and a user's typed script passes mypy --strict.

A block of plain text right after a Python block is what the Python block prints. Its numbers may differ a little: the
last digits of sums depend on the processor, and a fit on them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from benchmarks import pictures

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
END = "end of a block"

# Blocks that this test cannot run, found by a word in them, with the reason.
SKIPPED = {
    "pyspark": "needs a Spark installation; tests/test_dask.py calls the same Labeler on Arrow batches",
    "import ray": "needs a Ray installation; tests/test_dask.py calls the same Labeler on Arrow tables",
    "import BERTopic": "needs BERTopic; tests/test_certainty.py makes the calls that it makes",
    'parallel_config(backend="dask")': "needs a Dask client; tests/test_dask_cluster.py has one",
}
# A cluster's address is replaced: the same code runs on the threads of this process.
REPLACED = {'Client("tcp://scheduler:8786")': "Client(processes=False, n_workers=1, dashboard_address=None)"}


def python_blocks(text):
    """Return the Python blocks that can run here, each with what it prints or an empty text."""
    found = [pair for pair in BLOCK.findall(text) if not any(word in pair[0] for word in SKIPPED)]
    for address, local in REPLACED.items():
        found = [(code.replace(address, local), output) for code, output in found]
    return found


def write_rows(folder):
    """Write the folders of files that the pages name: an id and three columns, around five centres."""
    rng = np.random.default_rng(0)
    for name in ("big", "new"):
        (folder / name).mkdir()
        for number in range(2):
            y = rng.integers(5, size=200)
            X = 4 * np.eye(5)[y][:, :3] + 4 * (y[:, None] == 4) + rng.normal(0, 0.3, (200, 3))
            table = pd.DataFrame(X, columns=["a", "b", "c"])
            table.insert(0, "id", np.arange(200) + 200 * number)
            if "README" in folder.name:
                table = table.drop(columns="id")
            table.to_parquet(folder / name / f"part-{number}.parquet", index=False)


def is_nearly(printed, expected):
    """Say whether two texts have the same words, and numbers that differ by 5 % or 0.05 at most."""
    if NUMBER.sub("#", printed) != NUMBER.sub("#", expected):
        return False
    return [float(number) for number in NUMBER.findall(printed)] == pytest.approx(
        [float(number) for number in NUMBER.findall(expected)], rel=0.05, abs=0.05
    )


def test_numbers_on_a_page_may_differ_a_little_and_words_not():
    assert is_nearly("0.79 of 178 rows\n", "0.75 of 178 rows\n")
    assert not is_nearly("0.79 of 178 rows\n", "0.69 of 178 rows\n")
    assert not is_nearly("0.79 of 178 rows\n", "0.79 of 278 rows\n")
    assert not is_nearly("0.79 of 178 rows\n", "0.79 of 178 cells\n")


@pytest.mark.parametrize("page", [page for page in PAGES if python_blocks(page.read_text(encoding="utf-8"))], ids=str)
def test_the_python_blocks_of_a_page_run(page, tmp_path):
    folder = tmp_path / page.stem
    folder.mkdir()
    write_rows(folder)
    script = folder / "page.py"
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    script.write_text("\n".join(f"{code}\nprint({END!r})\n" for code, _ in blocks), encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning:knet", str(script)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    for (_, output), printed in zip(blocks, run.stdout.split(f"{END}\n"), strict=False):
        assert not output or is_nearly(printed, output)
    shown = [float(number) for number in re.findall(r"\d\.?\d*e[+-]\d+", run.stdout)]
    for claim in re.findall(r"prints (?:\|U'U - I\| = )?(\d\S*)", page.read_text(encoding="utf-8")):
        assert any(float(claim) / 5 < number < 5 * float(claim) for number in shown)  # rounding differs by machine


def test_blocks_are_found_and_can_fail(tmp_path):
    text = "```python\nx = 1\n```\n\n```console\n$ knet\n```\n\n```python\nimport ray\n```\n"
    assert python_blocks(text) == [("x = 1\n", "")]
    wrong = {
        "import": ("```python\nfrom knet import no_such_name\n```\n", "no_such_name"),
        "output": ("```python\nprint(1)\n```\n\n```python\nprint(2)\n```\n\n```text\n3\n```\n", "3"),
    }
    for name, (content, message) in wrong.items():
        page = tmp_path / f"{name}.md"
        page.write_text(content)
        with pytest.raises(AssertionError, match=message):
            test_the_python_blocks_of_a_page_run(page, tmp_path)


def test_the_pictures_of_the_guide_are_those_that_the_command_draws(tmp_path):
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "guide").glob("*.md"))
    assert set(re.findall(r"\]\(\.\./images/(\w+)\.png\)", pages)) == pictures.PICTURES.keys()
    stored = {name: ROOT / "docs" / "images" / f"{name}.png" for name in pictures.PICTURES}
    assert [name for name, path in stored.items() if path.stat().st_size > 80_000] == []
    pictures.main(["tables", "--to", str(tmp_path)])
    with Image.open(tmp_path / "tables.png") as drawn, Image.open(stored["tables"]) as image:
        assert abs(drawn.width - image.width) < 20  # fonts differ by machine
        assert np.ptp(np.asarray(drawn.convert("L"))) > 100


TYPED_SCRIPT = """
from pathlib import Path
from typing import assert_type

import numpy as np

from knet import Advanced, KNet, load, scan
from knet.explore.scan import Scan
from knet.metrics import nmi
from knet.presets import paper

X = np.zeros((10, 2))
model = KNet(n_clusters=2, hidden_layer_sizes=(8, 8), max_iter=1, advanced=Advanced(steps_per_iter=2)).fit(X)
assert_type(model, KNet)
assert_type(load("model.safetensors"), KNet)
assert_type(scan(X, 3, random_state=0), Scan)
model.save(Path("model.safetensors"))
model.report(X, path="report.html", n_refits=1, random_state=0)
score: float = nmi(model.labels_, model.predict(X))
other: KNet = KNet(3, **paper("wine"))
model.stability(X, n_refits=2, random_state=0)
text: str = model.explain(X).rules[0].text
"""
# Third parties without types are ignored, and torch is not analysed, which would take a minute.
MYPY_OPTIONS = """
[mypy]
strict = True
[mypy-sklearn.*,scipy.*]
ignore_missing_imports = True
[mypy-torch.*]
follow_imports = skip
"""
WRONG_LINES = {
    "model.report(X, path='report.html', refits=1)": "refits",
    "KNet(2, max_rounds=3)": "max_rounds",
    "KNet(2, advanced=3)": "advanced",
    "assert_type(model.fit(X), int)": 'of type "KNet", not "int"',
}


def check_types(folder, text):
    """Return the report of mypy --strict on a user's script."""
    (folder / "user.py").write_text(text, encoding="utf-8")
    (folder / "mypy.ini").write_text(MYPY_OPTIONS, encoding="utf-8")
    command = (
        "import sys; from mypy import api; out, err, code = api.run(sys.argv[1:]); print(out + err); sys.exit(code)"
    )
    options = ["--config-file", "mypy.ini", "--cache-dir", "cache", "user.py"]
    run = subprocess.run(
        [sys.executable, "-c", command, *options], cwd=folder, capture_output=True, text=True, check=False
    )
    return run.returncode, run.stdout + run.stderr


def test_a_typed_user_script_passes_mypy_and_mistakes_are_found(tmp_path):
    code, text = check_types(tmp_path, TYPED_SCRIPT)
    assert code == 0, text
    code, text = check_types(tmp_path, TYPED_SCRIPT + "\n".join(WRONG_LINES))
    assert code == 1
    assert len(re.findall("error:", text)) == len(WRONG_LINES), text
    for word in WRONG_LINES.values():
        assert word in text
