"""Print the oldest version of each requirement that pyproject.toml accepts, as constraints for pip.

`python packaging/floors.py EXTRA,...` covers the requirements of knet and of these extras.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<extras>[\w,]+)\])?(?:>=(?P<floor>[\d.]+))?$")


def floors(project: dict[str, Any], extras: list[str]) -> dict[str, str]:
    """Return the floor of each requirement of the project and of some extras: the highest if there are several."""
    options = project["optional-dependencies"]
    found: dict[str, str] = {}
    for text in [*project["dependencies"], *(text for extra in extras for text in options[extra])]:
        parts = REQUIREMENT.fullmatch(text)
        if parts is None:
            raise SystemExit(f"pyproject.toml: {text!r} is not of the form name>=version.")
        if parts["name"] != project["name"]:
            found[parts["name"]] = max(found.get(parts["name"], "0"), parts["floor"], key=numbers)
        elif missing := set(parts["extras"].split(",")) - set(extras):
            raise SystemExit(f"{text} needs {', '.join(sorted(missing))} among the extras.")
    return found


def numbers(version: str) -> list[int]:
    """Return the numbers of a version, for a comparison."""
    return [int(part) for part in version.split(".")]


if __name__ == "__main__":
    content = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    for name, version in sorted(floors(content["project"], sys.argv[1].split(",")).items()):
        sys.stdout.write(f"{name}=={version}\n")
