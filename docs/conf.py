"""Settings of the documentation site, which `make docs` builds from the Markdown files of the repository."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

project = "openmrc"
author = "the openmrc developers"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

# The repository is the source folder, so that links between README, ARCHITECTURE and docs are links of the site.
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "spec/README.md"]
exclude_patterns = [".venv", ".git", "benchmarks", "build", "dist", "examples", "native", "src", "tests", "tools"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "_docs_extension"]
source_suffix = {".md": "markdown"}
nitpicky = True
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

default_role = "py:obj"
autosummary_generate = False
autodoc_default_options = {"members": True, "show-inheritance": True, "undoc-members": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_display_short_literal_types = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"openmrc {release}"
html_copy_source = False
html_show_copyright = False
