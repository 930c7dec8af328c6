"""Install the wheel of dist/ as a newcomer does, outside the repository, and use it.

First without extras, in an empty environment; then each extra alone, on top of that environment and of nothing else;
last the README's code, and the way from a CSV with gaps to labels for new rows, in commands.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIT = """
from knet import KNet, load
from knet.datasets import make_moon

X, y = make_moon(300, random_state=0)
model = KNet(n_clusters=2, random_state=0).fit(X)
"""
# The smallest workbook that holds numbers: knet reads workbooks and needs no package that writes them.
WORKBOOK = """
import zipfile
types, office = "http://schemas.openxmlformats.org/package/2006", "http://schemas.openxmlformats.org"
main, links = f"{office}/spreadsheetml/2006/main", f"{office}/officeDocument/2006/relationships"
kind = "application/vnd.openxmlformats-officedocument.spreadsheetml."
def link(target, name):
    relation = f'<Relationship Id="r1" Type="{links}/{name}" Target="{target}"/>'
    return f'<Relationships xmlns="{types}/relationships">{relation}</Relationships>'
cells = [["a", "b"], *X.tolist()]
rows = "".join("<row>" + "".join(
    f'<c t="inlineStr"><is><t>{v}</t></is></c>' if isinstance(v, str) else f"<c><v>{v}</v></c>" for v in row) + "</row>"
    for row in cells)
with zipfile.ZipFile("moon.xlsx", "w") as book:
    book.writestr("[Content_Types].xml", f'<Types xmlns="{types}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}sheet.main+xml"/>'
        f'<Override PartName="/xl/sheet.xml" ContentType="{kind}worksheet+xml"/></Types>')
    book.writestr("_rels/.rels", link("xl/workbook.xml", "officeDocument"))
    book.writestr("xl/_rels/workbook.xml.rels", link("sheet.xml", "worksheet"))
    book.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{links}"><sheets>'
        '<sheet name="moon" sheetId="1" r:id="r1"/></sheets></workbook>')
    book.writestr("xl/sheet.xml", f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>')
"""
# What each extra is for. The command is called as a module: an environment on top of another one lacks its scripts.
COMMAND = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'knet', *{!r}], check=True)"
USES = {
    "": FIT + 'model.save("moon.safetensors"); assert (load("moon.safetensors").predict(X) == model.labels_).all()',
    "plots": COMMAND.format(["demo"]) + '; open("knet-demo/spiral2.png").close()',
    "report": FIT + 'model.report(X, "report.html")',
    "tables": FIT
    + "import pandas, polars, pyarrow\n"
    + "for rows in (pandas.DataFrame(X), polars.DataFrame(X)): assert (model.predict(rows) == model.labels_).all()",
    "excel": FIT + WORKBOOK + COMMAND.format(["fit", "moon.xlsx", "-c", "2", "--labels", "labels.csv"]),
    "dask": FIT + "import dask.array as da; assert (model.predict(da.from_array(X)).compute() == model.labels_).all()",
    "onnx": FIT + 'from knet.model.onnx import to_onnx; to_onnx(model, "moon.onnx")',
}
# Wines with a number, a cultivar and gaps in a tenth of the cells; some of them arrive later.
TABLE = """
import numpy as np
from sklearn.datasets import load_wine
wine = load_wine(as_frame=True)
table = wine.data.mask(np.random.default_rng(0).random(wine.data.shape) < 0.1).sample(frac=1, random_state=0)
table = table.assign(cultivar=wine.target.map({0: "barolo", 1: "grignolino", 2: "barbera"}))
table.index = [f"W{number:03d}" for number in table.index]
table[:150].to_csv("wine.csv", index_label="bottle")
table[150:].drop(columns="cultivar").to_csv("new.csv", index_label="bottle")
"""
DECISION = """
import pandas
found = pandas.read_csv("decided.csv")
assert list(found.columns[:2]) == ["bottle", "label"], list(found.columns)
assert len(found) == 28 and (found["label"] >= 0).mean() > 0.8
assert (found.filter(like="proba").sum(axis=1) - 1).abs().max() < 1e-3
"""
MAX_BYTES = 400_000  # of the wheel


class Environment:
    """A virtual environment in a folder of its own, which sees the packages of another one if that is given."""

    def __init__(self, folder: Path, base: "Environment | None" = None) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.folder = folder
        self.packages = next(folder.glob("lib/python*/site-packages"))
        if base is not None:
            (self.packages / "base.pth").write_text(str(base.packages), encoding="utf-8")

    def run(self, *command: str) -> None:
        """Run a command of the environment in its folder, without a path to the repository."""
        programs = self.folder / "bin"
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        variables |= {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        subprocess.run([str(programs / command[0]), *command[1:]], cwd=self.folder, env=variables, check=True)

    def install(self, wheel: Path, extras: str = "") -> None:
        """Install the wheel with some of its extras, in the versions of constraints.txt."""
        target = f"{wheel}[{extras}]" if extras else str(wheel)
        options = ["--quiet", "--disable-pip-version-check", "--no-compile", "-c", str(ROOT / "constraints.txt")]
        self.run("python", "-m", "pip", "install", *options, target)


def use_as_a_newcomer(environment: Environment) -> None:
    """Run the README's code, and go from a CSV with gaps to a report and to labels for new rows."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    environment.run("python", "-c", "\n".join(BLOCK.findall(readme)))
    environment.run("python", "-c", TABLE)
    columns = ["--id-col", "bottle", "--target", "cultivar"]
    environment.run("knet", "scan", "wine.csv", *columns)
    environment.run("knet", "fit", "wine.csv", *columns, "-o", "wine.safetensors", "--report", "wine.html")
    environment.run("knet", "drift", "wine.safetensors", "new.csv")
    options = ["--id-col", "bottle", "--proba", "--reject", "0.01"]
    environment.run("knet", "predict", "wine.safetensors", "new.csv", "-o", "decided.csv", *options)
    environment.run("python", "-c", DECISION)
    assert (environment.folder / "wine.html").stat().st_size > 10_000


def main() -> None:
    """Try the only wheel in dist/."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
    assert wheel.stat().st_size < MAX_BYTES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        base = Environment(folder / "base")
        base.install(wheel)
        for extra, code in USES.items():
            started = time.perf_counter()
            environment = base if not extra else Environment(folder / extra, base)
            if extra:
                environment.install(wheel, extra)
            environment.run("python", "-c", code)
            sys.stderr.write(f"extra {extra or '-'}: {time.perf_counter() - started:.0f} s\n")
        base.install(wheel, "plots,report,tables")
        use_as_a_newcomer(base)


if __name__ == "__main__":
    main()
