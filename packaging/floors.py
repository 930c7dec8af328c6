"""Print the oldest version of each requirement that pyproject.toml accepts, as constraints for pip.

`python packaging/floors.py EXTRA ...` covers the requirements of knet and of these extras.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(?:\[(?P<extras>[\w,]+)\])?(?:>=(?P<floor>[\d.]+))?$")


def floors(project: dict[str, Any], extras: list[str]) -> Iterator[str]:
    """Yield `name==version` for the requirements of the project and of some of its extras."""
    options = project["optional-dependencies"]
    for text in [*project["dependencies"], *(text for extra in extras for text in options[extra])]:
        found = REQUIREMENT.fullmatch(text)
        if found is None:
            raise SystemExit(f"pyproject.toml: {text!r} is not of the form name>=version.")
        if found["name"] != project["name"]:
            yield f"{found['name']}=={found['floor']}"
        elif missing := set(found["extras"].split(",")) - set(extras):
            raise SystemExit(f"{text} needs {', '.join(sorted(missing))} among the arguments.")


if __name__ == "__main__":
    content = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    sys.stdout.write("\n".join(sorted(floors(content["project"], sys.argv[1:]))) + "\n")
