"""Check that every link and picture of the finished site leads to a file, and to a heading if it names one."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.typing import ExtensionMetadata


class Page(HTMLParser):
    """The anchors of a page and what it links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect identifiers, links and pictures."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.links |= {values[name] for name in ("href", "src") if name in values}


def broken_links(site: Path) -> list[str]:
    """Return the local links that lead nowhere, as `page: link`."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    return [
        f"{path.relative_to(site.resolve())}: {link}"
        for path, page in pages.items()
        for link in sorted(page.links)
        if not leads_somewhere(link, path, pages)
    ]


def leads_somewhere(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Return whether a link has a target; links to other sites are not followed."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    return not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors


def check(app: Sphinx, exception: Exception | None) -> None:
    """End the build with an error if a link is broken."""
    if exception is None and app.builder.name == "html" and (broken := broken_links(Path(app.outdir))):
        raise ExtensionError("Broken links:\n" + "\n".join(broken))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension."""
    app.connect("build-finished", check, priority=900)  # after the theme has written its files
    return {"parallel_read_safe": True, "parallel_write_safe": True}
