"""The public surface is the one in tests/signatures.txt: a change of it is seen in the review."""

import difflib

import knet
from knet.methods import FurtherMethods
from tests import signatures

HOW = "If the change is meant, run `python -m tests.signatures`, and say it in CHANGELOG.md."


def test_public_names_parameters_and_options_are_those_on_record():
    kept = signatures.PATH.read_text(encoding="utf-8").splitlines()
    changes = [line for line in difflib.ndiff(kept, signatures.surface()) if line[:2] in ("- ", "+ ")]
    assert changes == [], f"The public surface has changed. {HOW}\n" + "\n".join(changes)


def test_a_new_parameter_another_default_and_a_lost_name_are_noticed(monkeypatch):
    def scan(X, max_clusters=10, **options):
        """Have another default."""

    before = set(signatures.surface())
    monkeypatch.setattr(knet, "scan", scan)
    monkeypatch.delattr(FurtherMethods, "undo")
    after = set(signatures.surface())
    lost, new = before - after, after - before
    assert "knet.KNet.undo(self)" in lost
    assert new == {"knet.scan(X, max_clusters=10, **options)"}
    assert len(lost) == 2


def test_types_do_not_count_but_defaults_do():
    def typed(x: int, *, y: float = 1.0) -> str:
        """Have types."""

    assert signatures.parameters(typed) == "(x, *, y=1.0)"
