"""A sample report for the site: the wines of scikit-learn, clustered while the site is built."""

from pathlib import Path

from sklearn.datasets import load_wine
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.typing import ExtensionMetadata

from knet import Advanced, KNet

FOLDER = "generated/extra"  # copied to the top of the site: `html_extra_path`
PAGE = "sample-report.html"


def write_report(app: Sphinx, config: Config) -> None:
    """Write the report, if there is none yet, before Sphinx checks that its folder exists."""
    path = Path(app.srcdir) / FOLDER / PAGE
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    wine = load_wine(as_frame=True)
    model = KNet(3, random_state=0, advanced=Advanced(keep_embeddings=True)).fit(wine.data)
    model.report(wine.data, path, target=wine.target_names[wine.target], source="wine.csv", random_state=0)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension."""
    app.connect("config-inited", write_report, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
