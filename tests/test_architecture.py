"""The rules that a machine can check: which folder imports which, names, sizes, wording, and what docs/theory.md names.

Every checker takes source text and returns complaints, so that the last tests can show that each of them can fail.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "knet"
THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
MAX_CODE_LINES = 350


def module_name(path):
    """Return the dotted name below knet: `train.kernels`, `estimator`; a package is named like its folder."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


SOURCES = {module_name(path): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
FOLDERS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))

# Folders and modules in the order of their imports: each may import those of the rows above its own.
LAYERS: tuple[set[str], ...] = (
    {"exceptions", "arrays", "threads", "files", "parameters", "advanced", "progress"},
    {"metrics", "presets", "rows"},
    {"prepare"},
    {"start"},
    {"train"},
    {"model"},
    {"methods"},
    {"estimator"},
    {"model.file", "model.onnx", "model.blocks"},  # they make or take a KNet
    {"explore"},
    {"show"},
    {"__init__"},
    {"tables", "datasets"},
    {"dask"},
    {"cli"},
    {"__main__"},
)
ONLY = {"tables": {"exceptions", "arrays", "files", "rows"}, "datasets": {"files"}, "rows": {"exceptions", "arrays"}}

# Imports against this direction that are made inside a function or for type checking only: the model's own methods,
# the call that passes a Dask collection on, tables by their recipe, and the version of knet in a model file.
MAY_IMPORT_LATE = {
    ("methods", "estimator"),
    ("methods", "explore"),
    ("methods", "model.file"),
    ("methods", "show"),
    ("model", "estimator"),
    ("model.file", "__init__"),
    ("rows", "dask"),
    ("rows", "tables"),
}

# All others work without torch: it is for a user's own encoder, for GPUs and for ONNX.
WITH_TORCH = {"train.own_encoder", "model.torch_encoder", "model.onnx"}
MAX_LINES = 420
MAX_LINES_WITH_ANY = 150

# Words that the documentation and the sources avoid (CONTRIBUTING.md, "Wording").
BANNED_WORDS = re.compile(
    r"way of the data|\bstations?\b|\brooms\b|\blets? go\b|\bfaint(ly)?\b|\bstands? still\b|\bstood still\b"
    r"|\b(comes?|came) to rest\b|\bstern(er)?\b|\balike\b|\banew\b|\bpassed over\b|\btelling columns?\b"
    r"|\btakes? (nothing )?along\b|\bknobs?\b|\b[Ss]ay --|\bmost restarts\b|\bwhose way\b",
    re.IGNORECASE,
)
OLD_NAMES = re.compile(
    r"\b(max_rounds|steps_per_round|keep_rounds|rounds_|best_round_|hidden_width|n_hidden_layers|psi_0|knet0"
    r"|KNet\.scan|knet\.persistence)\b|--(rounds|restarts|refits|seed)\b"
)
WRITTEN = [
    *(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".html", ".js", ".css"}),
    *(path for folder in ("benchmarks", "examples", "packaging") for path in (ROOT / folder).glob("*.py")),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "Makefile")),
]


def imported_modules(source):
    """Yield (dotted module below knet, whether the import is made late: in a function or for type checking)."""
    tree = ast.parse(source)
    late = late_nodes(tree)
    for node in ast.walk(tree):
        for name in _knet_modules(node):
            yield name, id(node) in late


def late_nodes(tree):
    """Return the ids of the nodes in a function or for type checking."""
    return {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_type_checking(node)
        for inner in ast.walk(node)
    }


def _is_type_checking(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _knet_modules(node):
    if isinstance(node, ast.Import):
        return [
            alias.name.partition(".")[2] or "__init__" for alias in node.names if alias.name.split(".")[0] == "knet"
        ]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level:
        return [f"relative import of {node.module or node.names[0].name}"]
    head, _, module = (node.module or "").partition(".")
    if head != "knet":
        return []
    names = [".".join(filter(None, (module, alias.name))) for alias in node.names]
    return [name if name in SOURCES else module or "__init__" for name in names]


def complaints_about_imports(module, source):
    owner = owner_of(module)
    if owner is None:
        return [f"{module} is new: add it to LAYERS"]
    return [
        f"{module} imports {name}"
        for name, late in imported_modules(source)
        if not _allowed(owner, name) and not (late and (owner, owner_of(name)) in MAY_IMPORT_LATE)
    ]


def complaints_about_torch(module, source):
    """Allow torch, and the modules that need it, at the top of a file in WITH_TORCH only."""
    if module in WITH_TORCH:
        return []
    tree = ast.parse(source)
    late = late_nodes(tree)
    names = [
        *(name for node in ast.walk(tree) if id(node) not in late for name in _torch_modules(node)),
        *(f"knet.{name}" for name, is_late in imported_modules(source) if not is_late and name in WITH_TORCH),
    ]
    return [f"{module} imports {name} at the top" for name in names]


def _torch_modules(node):
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom) and not node.level:
        names = [node.module or ""]
    return [name for name in names if name.split(".")[0] == "torch"]


def owner_of(module):
    """Return the entry of LAYERS that a module belongs to: itself, or its folder."""
    known = set().union(*LAYERS)
    return next((name for name in (module, module.split(".")[0]) if name in known), None)


def _allowed(owner, name):
    imported = owner_of(name)
    level = next(level for level, names in enumerate(LAYERS) if owner in names)
    return imported == owner or imported in ONLY.get(owner, set().union(*LAYERS[:level]))


def import_cycle(sources):
    """Return the modules whose imports at the top of the file form or reach a cycle."""
    needs = {
        module: {name for name, late in imported_modules(source) if not late and name != module}
        for module, source in sources.items()
    }
    done = set()
    while ready := {module for module, names in needs.items() if names & set(needs) <= done} - done:
        done |= ready
    return sorted(set(needs) - done)


def complaints_about_folder(folder, source):
    """Check that the docstring of a folder has a paragraph "Imports ..." or "May import ...", and that it is true."""
    paragraphs = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")
    found = [text for text in paragraphs[1:] if text.startswith(("Imports ", "May import "))]
    if not found:
        return [f"{folder}/__init__.py does not say what the folder may import"]
    first_clause = re.split(r"[;.](?:\s|$)", found[0])[0]
    named = {name for name in re.findall(r"`([\w.]+)`", first_clause) if owner_of(name)}
    return [f"{folder}/__init__.py names {name}, which is not allowed" for name in named if not _allowed(folder, name)]


def complaints_about_names(module, source):
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [
        f"{module}:{token.start[0]} has the non-ASCII name {token.string!r}"
        for token in tokens
        if token.type == tokenize.NAME and not token.string.isascii()
    ]


def code_lines(source):
    """Count the lines that hold code: no blank lines, comments or docstrings."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def complaints_about_size(module, source):
    count, n_lines = code_lines(source), len(source.splitlines())
    return [
        *([f"{module} has {count} lines of code, more than {MAX_CODE_LINES}"] if count > MAX_CODE_LINES else []),
        *([f"{module} has {n_lines} lines, more than {MAX_LINES}"] if n_lines > MAX_LINES else []),
    ]


def complaints_about_print(module, source):
    if module.split(".")[0] == "cli":
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        f"{module}:{call.lineno} prints; use logging or return the text"
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


def complaints_about_pickle(module, source):
    """Only `model.blocks` may read pickles: payloads for workers that were made in the same job."""
    names = {"pickle", "cloudpickle", "_pickle", "dill", "shelve", "marshal"}
    found = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    } & names
    return [f"{module} imports {name}" for name in sorted(found) if module != "model.blocks"]


def complaints_about_file_name(module, source):
    name = module.split(".")[-1]
    return [f"{name} has no meaning: a helper lives with its user"] if name in {"utils", "helpers", "common"} else []


def complaints_about_one(module, source):
    """Find variables and arguments called `one`: a noun says what they are."""
    nodes = ast.walk(ast.parse(source))
    found = [node for node in nodes if getattr(node, "id", getattr(node, "arg", None)) == "one"]
    return [f"{module}:{node.lineno} has a variable called `one`" for node in found]


def complaints_about_labels(module, source, theory=THEORY):
    cited = re.findall(r"\[([A-Z]+(?:-[A-Z]+)*)\]", "\n".join(_texts(source)))
    defined = re.findall(r"^\| \[([A-Z-]+)\] \|", theory, re.MULTILINE)
    return [
        f"{module} cites [{label}], which docs/theory.md does not define" for label in cited if label not in defined
    ]


def _texts(source):
    """Yield the docstrings and comments of a source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def defined_names(source):
    """Return what a module defines, methods and annotated attributes as Class.name."""
    names = set()
    for node in ast.parse(source).body:
        targets = [node] if hasattr(node, "name") else getattr(node, "targets", [getattr(node, "target", None)])
        names |= {getattr(target, "name", getattr(target, "id", None)) for target in targets}
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


def complaints_about_pointers(theory, sources):
    """Look up every dotted name in code type of docs/theory.md, such as `train.kernels.hsic`."""
    return [
        f"docs/theory.md names {pointer}, which does not exist"
        for pointer in re.findall(r"`([A-Za-z_]+(?:\.[A-Za-z_]+)+)`", theory)
        if not _exists(pointer.removeprefix("knet."), sources)
    ]


def _exists(pointer, sources):
    modules = [module for module in sources if pointer.startswith(f"{module}.")]
    return any(pointer.removeprefix(f"{module}.") in defined_names(sources[module]) for module in modules)


def complaints_about_words(name, text, pattern=BANNED_WORDS):
    lines = enumerate(text.splitlines(), 1)
    return [f"{name}:{number} {found[0]!r}" for number, line in lines for found in pattern.finditer(line)]


CHECKERS = [
    complaints_about_imports,
    complaints_about_torch,
    complaints_about_names,
    complaints_about_size,
    complaints_about_print,
    complaints_about_file_name,
    complaints_about_pickle,
    complaints_about_one,
    complaints_about_labels,
]


def test_every_module_keeps_the_rules():
    assert [text for module, source in SOURCES.items() for check in CHECKERS for text in check(module, source)] == []


def test_no_import_cycle():
    assert import_cycle(SOURCES) == []


def test_every_folder_says_what_it_may_import():
    assert [text for folder in FOLDERS for text in complaints_about_folder(folder, SOURCES[folder])] == []
    assert len([path for path in PACKAGE.iterdir() if path.suffix == ".py"]) <= 14
    assert (PACKAGE / "py.typed").exists()
    modules = {owner_of(module) for module in SOURCES}
    assert modules == set().union(*LAYERS)  # no entry without a module


def test_few_values_have_no_type():
    lines = [line for source in SOURCES.values() for line in source.splitlines() if re.search(r"\bAny\b", line)]
    assert len(lines) <= MAX_LINES_WITH_ANY


def test_every_module_but_three_can_be_imported_without_torch():
    assert set(SOURCES) > WITH_TORCH
    names = [f"knet.{name}" for name in SOURCES if name not in {*WITH_TORCH, "__main__"}]  # which runs a command
    names = [name.removesuffix(".__init__") for name in names]
    code = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)\n"
    command = [sys.executable, "-c", code + "print('torch' in sys.modules)", *names]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_functions_named_in_the_theory_exist():
    assert complaints_about_pointers(THEORY, SOURCES) == []


def test_the_wording_is_plain():
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in WRITTEN}
    assert [found for name, text in texts.items() for found in complaints_about_words(name, text)] == []
    pages = {name: text for name, text in texts.items() if name.endswith(".md") and "decisions/0024" not in name}
    del pages["CHANGELOG.md"]  # it names what has changed
    assert [found for name, text in pages.items() for found in complaints_about_words(name, text, OLD_NAMES)] == []
    benchmarks = {name: text for name, text in texts.items() if name.startswith("benchmarks")}
    assert [found for name, text in benchmarks.items() for found in complaints_about_one(name, text)] == []


# The checkers can fail: each bad source below must draw a complaint, and each good one none.


def test_import_checkers_can_fail():
    bad = {
        "rows.kinds": ["import knet.prepare", "from knet.threads import in_threads", "from knet import prepare"],
        "prepare.scaling": ["from knet.start.choice import Start"],
        "train.kernels": ["from knet.model.predictor import Predictor", "from knet.model import predictor"],
        "train.networks": ["from knet.estimator import KNet", "from . import adam", "from .adam import Adam"],
        "train.algorithm_1": ["def f():\n    from knet.estimator import KNet"],
        "model.predictor": ["from knet.model.file import save", "from knet.estimator import KNet"],
        "metrics": ["from knet import KNet", "from knet.train import kernels"],
        "estimator": ["from knet.model.file import save", "def f():\n    from knet.cli import app"],
        "model.file": ["from knet.tables.read import Source", "from knet.tables import read"],
        "explore.rules": ["from knet.show import plots"],
        "tables.read": ["from knet.estimator import KNet", "from knet.prepare.scaling import Scaling"],
        "stray": ["import math"],
    }
    for module, sources in bad.items():
        for source in sources:
            assert complaints_about_imports(module, source), (module, source)
    good = {
        "train.laplacians": "from knet.train.kernels import center\nfrom knet.exceptions import KNetError",
        "train.algorithm_1": "import numpy\nfrom knet.start import judge\nfrom knet import threads",
        "methods": "def save(self):\n    from knet.model.file import save",
        "model.file": "from knet.files import write_whole\nfrom knet.estimator import KNet",
        "tables.read": "from knet.rows import kinds",
        "cli.app": "from knet import KNet, load\nfrom knet.dask import files",
        "metrics": "import knetwork",
    }
    for module, source in good.items():
        assert complaints_about_imports(module, source) == [], module
    cycle = {
        "train.algorithm_1": "from knet.train.follow import Split",
        "train.follow": "from knet.train.algorithm_1 import Iteration",
    }
    known = {
        "train.follow": cycle["train.follow"],
        "train.algorithm_1": "def f():\n    from knet.train.follow import Split",
    }
    for source in (
        "import torch",
        "import torch.nn as nn",
        "from torch import nn",
        "from torch.nn import functional",
        "class A:\n    import torch",
        "from knet.train.own_encoder import OwnEncoder",
        "from knet.model import torch_encoder",
    ):
        assert complaints_about_torch("train.networks", source), source
        assert complaints_about_torch("model.onnx", source) == []
    for source in (
        "def f():\n    import torch",
        "if TYPE_CHECKING:\n    import torch\n    from knet.train.own_encoder import OwnEncoder",
        "def f():\n    from knet.model.torch_encoder import on_device",
        "import torchless\nfrom knet.train import networks",
    ):
        assert complaints_about_torch("train.networks", source) == [], source
    assert import_cycle(cycle) == ["train.algorithm_1", "train.follow"]
    assert import_cycle(known) == []


def test_checkers_of_sources_can_fail():
    assert complaints_about_names("m", "\u03c3 = 1")
    assert complaints_about_names("m", "def f(\u03bb): pass")
    assert complaints_about_names("m", "# \u03c3 in a comment\nx = '\u03c3'") == []
    assert complaints_about_print("train.algorithm_1", "def f():\n    print('x')")
    assert complaints_about_print("cli.app", "print('x')") == []
    assert complaints_about_print("train.algorithm_1", "# print('x')\nconsole.print('x')") == []
    assert complaints_about_file_name("train.utils", "")
    assert complaints_about_file_name("train.kernels", "") == []
    for source in (
        "import pickle",
        "from pickle import loads",
        "def f():\n    import cloudpickle as c",
        "import os, dill",
    ):
        assert complaints_about_pickle("model.file", source)
        assert complaints_about_pickle("model.blocks", source) == []
    for source in ("[f(one) for one in X]", "def f(one): pass", "one = 1"):
        assert complaints_about_one("m", source)
    assert complaints_about_one("m", "one_row = 1  # one") == []
    assert complaints_about_size("m", "x = 1\n" * (MAX_CODE_LINES + 1))
    assert complaints_about_size("m", "# comment\n" * (MAX_LINES + 1))
    assert code_lines('"""Text.\n\nMore.\n"""\n' + "\n# comment\n" * MAX_CODE_LINES + "x = 1\n") == 1
    assert code_lines('def f():\n    """Doc."""\n    return """a\nb"""\n') == 3


def test_checkers_of_texts_can_fail():
    theory = "| [HSIC] | Section 3 | `train.kernels.hsic` |\n"
    assert complaints_about_labels("m", '"""Return a thing [NOPE]."""', theory)
    assert complaints_about_labels("m", "x = 1  # [U-NOPE]", theory)
    assert complaints_about_labels("m", 'x = y["A"][K]\n"""Prose."""\n# [HSIC]', theory) == []
    sources = {"train.kernels": "LIMIT: int = 3\nclass Box:\n    def open(self): ...\ndef hsic(): ..."}
    for bad in ("`train.kernels.gone`", "`train.kernels.Box.shut`", "`kernels.hsic`"):
        assert complaints_about_pointers(bad, sources)
    good = "`train.kernels.hsic` `knet.train.kernels.Box.open` `train.kernels.LIMIT` `n_clusters`"
    assert complaints_about_pointers(good, sources) == []
    assert complaints_about_folder("start", '"""A start."""')
    assert complaints_about_folder("start", '"""A start.\n\nImports `train`."""')
    assert complaints_about_folder("train", '"""Training.\n\nImports `start` and `exceptions`."""') == []
    for bad in ("U stands still", "fit it anew", "Say --force", "a sterner judge", "1 is alike", "it was passed over"):
        assert complaints_about_words("m", bad)
    assert complaints_about_words("m", "one pass over the rows; use --force; the model is refitted") == []
    assert complaints_about_words("m", "`max_rounds=3`", OLD_NAMES)
    assert complaints_about_words("m", "`max_iter=3`", OLD_NAMES) == []
