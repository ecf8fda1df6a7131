# SPDX-License-Identifier: Apache-2.0
"""The documentation site (`make docs`), by Sphinx.

The source folder is the repository, so that links between README, CONTRIBUTING, CHANGELOG and the pages of
docs/ are the same on the site and on a code host. index.rst beside this file is the front page, with the
navigation.
"""

from __future__ import annotations

import sys
from pathlib import Path

from cgpu import __version__

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))  # for scripts.site

project = "OpenCGPU"
author = "the authors of OpenCGPU"
version = release = __version__
extensions = ["myst_parser", "scripts.site"]

root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/**"]
# Sphinx walks through every folder that is not named here, .venv and kmod/build too.
exclude_patterns = [path.name for path in REPOSITORY.iterdir() if path.is_dir() and path.name != "docs"]

myst_enable_extensions = ["deflist"]  # the manual pages' options
myst_heading_anchors = 4
highlight_language = "none"  # of indented blocks, most of which are output
smartquotes = False  # -- in the text is an option's beginning

html_theme = "furo"
html_title = "OpenCGPU"
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_extra_path = ["site"]  # a way from the site's root to the front page
