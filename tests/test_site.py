"""The extensions that the site is built with. `make docs` builds it; these tests need the extra `docs`."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the site needs the extra docs")

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def extensions(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_extensions"))
    yield
    for name in ("command_pages", "local_links", "repository_pages"):
        sys.modules.pop(name, None)


def test_the_reference_has_every_command_and_option():
    from command_pages import reference
    from typer.main import get_command

    from knet.cli.app import app

    sections = dict(section.split("\n", 1) for section in reference().split("## knet ")[1:])
    commands = get_command(app).commands
    assert sections.keys() == commands.keys()
    for name, command in commands.items():
        options = [option for parameter in command.params for option in parameter.opts if option.startswith("-")]
        assert options
        assert [option for option in options if option not in sections[name]] == []


def test_broken_links_are_found(tmp_path):
    from local_links import broken_links

    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#end">b</a><img src="c.png"><a href="#top">a</a>'
    )
    (tmp_path / "b.html").write_text('<a href="https://example.org/x">x</a><a href="a.html#nothing">a</a><p id="end">')
    assert broken_links(tmp_path) == ["a.html: c.png", "b.html: a.html#nothing"]
    (tmp_path / "c.png").touch()
    assert broken_links(tmp_path) == ["b.html: a.html#nothing"]


def test_links_to_files_of_the_repository_lead_to_pages_of_the_site():
    from repository_pages import adapt

    source = ["See [this](../../CONTRIBUTING.md#style), [that](theory.md)."]
    adapt(None, "decisions/0001", source)
    assert source == ["See [this](/contributing.md#style), [that](theory.md)."]
    source = ["Index"]
    adapt(None, "decisions/README", source)
    assert "toctree" in source[0]


def test_the_reference_has_every_public_name():
    import knet
    from knet import dask, datasets, exceptions, metrics, presets, tables
    from knet.show import plots

    page = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^   (knet\.[\w.]+)$", page, re.MULTILINE))
    declared = {
        f"{module.__name__}.{name}"
        for module in (knet, dask, tables)
        for name in module.__all__
        if callable(getattr(module, name))
    }
    defined = {
        f"{module.__name__}.{name}"
        for module in (datasets, exceptions, metrics, plots, presets)
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == module.__name__
    }
    helpers = {"knet.exceptions.warn_user", "knet.metrics.contingency", "knet.metrics.rand_index"}  # for knet itself
    helpers |= {"knet.metrics.rand_index_of"}
    assert sorted((declared | defined) - documented - helpers) == []
