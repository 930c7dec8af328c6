"""What is published: the name that users install, and the one place that has the version."""

import re
from importlib import metadata
from pathlib import Path

import knet

ROOT = Path(__file__).parents[1]
DISTRIBUTION = "knet-clustering"
# `knet` on the public index is a project of other people: neither `knet[tables]` nor `pip install knet` is ours.
FOREIGN = re.compile(r"\bknet\[[a-z]+[\],]|\b(?:pip|uv|pipx|conda)\b[^\n`#]*\binstall\b[^\n`#]*?[\s'\"]knet(?![-\w./])")
TEXTS = [
    *(path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".html", ".js"}),
    *(
        path
        for folder in ("docs", "examples", "benchmarks", ".github", "packaging")
        for path in (ROOT / folder).rglob("*")
    ),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml", ".ci/run")),
]
READ = {".py", ".html", ".js", ".md", ".rst", ".yml", ".yaml", ".toml", ".txt", ""}


def advice_to_install_the_other_project(text):
    """Return the phrases that would make a reader install the project that has the name `knet` on the index."""
    return [found[0] for found in FOREIGN.finditer(text)]


def test_no_page_or_message_tells_users_to_install_the_other_project():
    texts = [path for path in TEXTS if path.is_file() and path.suffix in READ and "_build" not in path.parts]
    assert len(texts) > 100
    found = {
        str(path.relative_to(ROOT)): advice_to_install_the_other_project(path.read_text("utf-8")) for path in texts
    }
    assert {name: phrases for name, phrases in found.items() if phrases} == {}


def test_the_search_for_the_wrong_name_can_fail():
    for bad in (
        "pip install knet",
        "pip install 'knet[tables]'",
        "Install knet[dask,tables] there",
        "uv pip install -U knet",
    ):
        assert advice_to_install_the_other_project(bad), bad
    for good in (
        "pip install knet-clustering",
        "pip install 'knet-clustering[tables]'",
        "python -m knet",
        "knet['seconds']",
    ):
        assert advice_to_install_the_other_project(good) == [], good


def test_the_version_is_that_of_the_installed_distribution():
    assert metadata.version(DISTRIBUTION) == knet.__version__


def floors_of(text):
    """Return the requirements `name>=version` in a text, by name; conda calls torch `pytorch`, matplotlib `-base`."""
    found = re.findall(r"\b([\w-]+)(?:\[[\w,]+\])? ?>=([\d.]+)", text)
    return {name.replace("pytorch", "torch").removesuffix("-base"): floor for name, floor in found}


def test_the_recipe_for_conda_has_the_floors_of_the_package():
    lines = metadata.requires(DISTRIBUTION)
    core = floors_of("\n".join(line for line in lines if "extra ==" not in line))
    recipe = floors_of((ROOT / "packaging/conda/recipe.yaml").read_text("utf-8").partition("  run:")[2])
    del recipe["python"]
    assert core.keys() <= recipe.keys()
    known = floors_of("\n".join(lines)) | core
    assert recipe == {name: known[name] for name in recipe}


def test_the_changelog_and_the_citation_have_the_version():
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[{re.escape(knet.__version__)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert f"\nversion: {knet.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
