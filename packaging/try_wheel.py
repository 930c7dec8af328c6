"""Install the wheel of dist/ as a newcomer does, outside the repository, and use it.

First without extras, in an empty environment; then each extra alone, on top of that environment and of nothing else;
last the README's code and a CSV that becomes a report in two commands.
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
TABLE = FIT + 'import pandas; pandas.DataFrame(X, columns=["a", "b"]).to_csv("moon.csv", index=False)'


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
    """Run the README's code, and make a report from a CSV with two commands."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    environment.run("python", "-c", "\n".join(BLOCK.findall(readme)))
    environment.run("python", "-c", TABLE)
    environment.run("knet", "scan", "moon.csv", "--max-clusters", "3")
    environment.run("knet", "fit", "moon.csv", "-c", "2", "--report", "moon.html", "--labels", "moon-labels.csv")
    assert (environment.folder / "moon.html").stat().st_size > 10_000


def main() -> None:
    """Try the only wheel in dist/."""
    (wheel,) = (ROOT / "dist").glob("*.whl")
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
