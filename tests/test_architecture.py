"""The house rules that a machine can keep: which module imports which, names, sizes, and what docs/theory.md points to.

Every checker takes source text and returns complaints, so that the last tests can show each of them fail.
"""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "knet"
THEORY = ROOT / "docs" / "theory.md"
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.glob("*.py"))}
MAX_CODE_LINES = 350

LEAVES = {
    "_callbacks",
    "_collections",
    "exceptions",
    "files",
    "kmeans",
    "metrics",
    "optimizers",
    "presets",
    "public_files",
    "threads",
}
MATHS = {"kernels", "networks", "spectral"}
CORE = {
    *MATHS,
    "_validation",
    "exceptions",
    "affinity",
    "fitting",
    "learning",
    "scanning",
    "starts",
    "predictor",
    "selection",
    "training",
}
AROUND = {*CORE, *LEAVES, "datasets", "estimator"}

# Each module, and the modules it may import.
MAY_IMPORT: dict[str, set[str]] = {
    **{leaf: set() for leaf in LEAVES},
    "datasets": {"public_files"},
    "_validation": {"exceptions"},
    "kernels": {"threads"},
    "networks": {"exceptions", "optimizers"},
    "spectral": {"exceptions", "kernels"},
    "predictor": {"exceptions", "kernels", "networks", "threads"},
    "affinity": {"kernels", "kmeans", "spectral"},
    "starts": {"affinity", "kmeans", "threads"},
    "scanning": {"affinity", "kmeans", "starts", "threads"},
    "selection": {"exceptions", "kernels", "kmeans", "spectral", "starts"},
    "training": {"exceptions", "optimizers", "threads", *MATHS},
    "fitting": {"exceptions", "kmeans", "starts", "predictor", "selection", "threads", "training", *MATHS},
    "learning": {"_callbacks", "exceptions", "fitting", "kmeans", "selection", "training", *MATHS},
    "estimator": CORE | LEAVES,
    "persistence": AROUND,
    "views": AROUND,
    "plots": {*AROUND, "views"},
    "charts": {"views"},
    "stability": {*AROUND, "views"},
    "findings": {*AROUND, "charts", "persistence", "stability", "views"},
    "report": {*AROUND, "findings"},
    "tables": {"exceptions"},
    "outputs": {"files", "tables"},
    "recipes": {"exceptions"},
    "export": AROUND,
    "blocks": {*AROUND, "persistence"},
    "reductions": {*AROUND, "blocks"},
    "dask": {*AROUND, "blocks", "persistence", "reductions"},
    "advice": {"estimator", "scanning"},
    "scan_command": {"advice", "commands", "outputs", "plots", "scanning", "tables"},
    "__init__": {*AROUND, "advice", "persistence"},
    "partitions": {*AROUND, "__init__", "blocks", "outputs", "recipes", "tables"},
    "commands": {
        *AROUND,
        "__init__",
        "persistence",
        "plots",
        "report",
        "blocks",
        "export",
        "outputs",
        "partitions",
        "recipes",
        "tables",
    },
    "cli": {*AROUND, "__init__", "plots", "commands", "scan_command"},
}

# Imports against the direction that wait inside a function: a method of the model that hands itself on, the version.
MAY_IMPORT_LATE = {
    ("_collections", "dask"),
    ("estimator", "persistence"),
    ("estimator", "report"),
    ("estimator", "stability"),
    ("persistence", "__init__"),
}


def imported_modules(source):
    """Yield (module of knet, whether the import waits inside a function)."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    late = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in ast.walk(tree):
        for name in _knet_names(node):
            yield name, id(node) in late


def _knet_names(node):
    if isinstance(node, ast.Import):
        dotted = [alias.name.split(".") for alias in node.names]
        return [[*parts, "__init__"][1] for parts in dotted if parts[0] == "knet"]
    if not isinstance(node, ast.ImportFrom):
        return []
    parts = (["knet"] if node.level else []) + (node.module.split(".") if node.module else [])
    if parts[:1] != ["knet"]:
        return []
    if len(parts) > 1:
        return [parts[1]]
    return [alias.name if alias.name in MAY_IMPORT else "__init__" for alias in node.names]


def complaints_about_imports(module, source):
    if module not in MAY_IMPORT:
        return [f"{module} has no room: add it to MAY_IMPORT"]
    return [
        f"{module} imports {name}"
        for name, late in imported_modules(source)
        if name not in MAY_IMPORT[module] and not (late and (module, name) in MAY_IMPORT_LATE)
    ]


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
    count = code_lines(source)
    return [f"{module} has {count} lines of code, more than {MAX_CODE_LINES}"] if count > MAX_CODE_LINES else []


def complaints_about_print(module, source):
    if module == "cli":
        return []
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        f"{module}:{call.lineno} prints; use logging or return the text"
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "print"
    ]


def complaints_about_file_name(module, source):
    return ["utils has no meaning: a helper lives with its user"] if module in {"utils", "helpers", "common"} else []


def complaints_about_labels(module, source, theory):
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
        owners = {getattr(target, "name", getattr(target, "id", None)) for target in targets}
        names |= owners
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return names


def complaints_about_pointers(theory, sources):
    """Look up every `module.name` of docs/theory.md."""
    pointers = re.findall(r"`([a-z_]+)\.([A-Za-z_]+(?:\.[a-z_]+)?)`", theory)
    return [
        f"docs/theory.md points to {module}.{name}, which does not exist"
        for module, name in pointers
        if module not in sources or name not in defined_names(sources[module])
    ]


CHECKERS = [
    complaints_about_imports,
    complaints_about_names,
    complaints_about_size,
    complaints_about_print,
    complaints_about_file_name,
]


@pytest.mark.parametrize("checker", CHECKERS)
@pytest.mark.parametrize("module", SOURCES)
def test_source_keeps_the_rules(checker, module):
    assert checker(module, SOURCES[module]) == []


@pytest.mark.parametrize("module", SOURCES)
def test_labels_cited_in_code_are_defined(module):
    assert complaints_about_labels(module, SOURCES[module], THEORY.read_text(encoding="utf-8")) == []


def test_functions_named_in_the_theory_exist():
    assert complaints_about_pointers(THEORY.read_text(encoding="utf-8"), SOURCES) == []


def test_rooms_have_no_cycle():
    done: set[str] = set()
    while ready := {room for room, needs in MAY_IMPORT.items() if needs <= done} - done:
        done |= ready
    assert done == set(MAY_IMPORT)


def test_package_is_flat_and_typed():
    assert [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE] == []
    assert (PACKAGE / "py.typed").exists()


# The checkers can fail: each bad source below must draw a complaint, and its good twin none.


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("kernels", "from knet.spectral import eig_step"),
        ("kernels", "import knet.training"),
        ("metrics", "from knet import kernels"),
        ("metrics", "from knet import KNet"),
        ("networks", "from . import training"),
        ("networks", "from .training import alternate"),
        ("training", "def f():\n    from knet.estimator import KNet"),
        ("estimator", "from knet.persistence import save"),
        ("estimator", "def f():\n    from knet.cli import main"),
        ("_validation", "from knet.kernels import center"),
        ("stray", "import math"),
    ],
)
def test_import_checker_can_fail(module, source):
    assert complaints_about_imports(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("spectral", "from knet.kernels import center"),
        ("training", "import torch\nfrom knet import kernels, networks"),
        ("estimator", "def save(self):\n    from knet.persistence import save"),
        ("cli", "from knet import KNet, load"),
        ("kernels", "import knetwork"),
    ],
)
def test_import_checker_can_pass(module, source):
    assert complaints_about_imports(module, source) == []


@pytest.mark.parametrize("source", ["\u03c3 = 1", "def f(\u03bb): pass", "x.\u03c8 = 2"])
def test_name_checker_can_fail(source):
    assert complaints_about_names("kernels", source)
    assert complaints_about_names("kernels", "# \u03c3 in a comment\nx = '\u03c3'") == []


def test_size_checker_can_fail():
    assert complaints_about_size("kernels", "x = 1\n" * (MAX_CODE_LINES + 1))
    padded = '"""Text.\n\nMore.\n"""\n' + "\n# comment\n" * MAX_CODE_LINES + "x = 1\n"
    assert code_lines(padded) == 1
    assert code_lines('def f():\n    """Doc."""\n    return """a\nb"""\n') == 3


def test_print_checker_can_fail():
    assert complaints_about_print("training", "def f():\n    print('x')")
    assert complaints_about_print("cli", "print('x')") == []
    assert complaints_about_print("training", "# print('x')\nconsole.print('x')") == []


def test_file_name_checker_can_fail():
    assert complaints_about_file_name("utils", "")
    assert complaints_about_file_name("kernels", "") == []


def test_label_checker_can_fail():
    theory = "| [HSIC] | Section 3 | `kernels.hsic` |\n"
    assert complaints_about_labels("kernels", '"""Return a thing [NOPE]."""', theory)
    assert complaints_about_labels("kernels", "x = 1  # [U-NOPE]", theory)
    assert complaints_about_labels("kernels", 'x = y["A"][K]\n"""Prose."""\n# [HSIC]', theory) == []


def test_pointer_checker_can_fail():
    sources = {"kernels": "LIMIT: int = 3\nclass Box:\n    def open(self): ...\ndef hsic(): ..."}
    for bad in ("`kernels.gone`", "`kernels.Box.shut`", "`nowhere.hsic`"):
        assert complaints_about_pointers(bad, sources)
    assert complaints_about_pointers("`kernels.hsic` `kernels.Box.open` `kernels.LIMIT` `n_clusters`", sources) == []
