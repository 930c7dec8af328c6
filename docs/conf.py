"""How the site is built: `make docs`. Nothing is fetched, neither while it is built nor while it is read."""

import sys
import tomllib
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS / "_extensions"))

import knet  # noqa: E402

PYPROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))

project = "knet"
author = "the knet authors"
copyright = author
release = version = knet.__version__

extensions = [
    "command_pages",
    "local_links",
    "mathml",
    "repository_pages",
    "sample_report",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
smartquotes = False  # options begin with two hyphens, and strings have straight quotes
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_extensions", "auto_examples/**/*.ipynb", "auto_examples/**/*.py"]
templates_path = ["_templates"]

# A reference that leads nowhere is an error (the build runs with -W). Names in single backticks are linked if the
# reference has them; most are parameters and file names.
nitpicky = True
default_role = "py:obj"
nitpick_ignore_regex = [("py:obj", ".*")]

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings have the types, in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "image_srcset": ["2x"],
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "reference_url": {"knet": None},
    "doc_module": ("knet",),
    "backreferences_dir": "generated/backreferences",
}

html_theme = "pydata_sphinx_theme"
html_title = "knet"
html_static_path = ["_static"]
html_extra_path = ["generated/extra"]
html_css_files = ["knet.css"]
html_favicon = "_static/knet.svg"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "knet", "image_light": "_static/knet.svg", "image_dark": "_static/knet.svg"},
    "github_url": PYPROJECT["project"]["urls"]["Source"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": [], "changelog": [], "auto_examples/index": []}
