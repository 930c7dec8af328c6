"""Pages that are written for the repository, changed in two places so that they also work on the site."""

import re

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

INDEX = "decisions/README"
RECORDS = "\n\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"
# Files at the top of the repository, and the pages that include them.
PAGES = {"CHANGELOG": "changelog", "CODE_OF_CONDUCT": "conduct", "CONTRIBUTING": "contributing", "SECURITY": "security"}
LINK = re.compile(rf"\]\((?:\.\./)+({'|'.join(PAGES)})\.md")


def adapt(app: Sphinx, page: str, source: list[str]) -> None:
    """Link the pages of the site instead of files outside docs/, and put the decision records below their index."""
    source[0] = LINK.sub(lambda found: f"](/{PAGES[found[1]]}.md", source[0])
    if page == INDEX:
        source[0] += RECORDS


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension."""
    app.connect("source-read", adapt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
