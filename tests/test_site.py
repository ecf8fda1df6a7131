# SPDX-License-Identifier: Apache-2.0
"""The documentation site has all documents, and loads nothing from elsewhere. Needs no network.

The build itself fails where a link or its anchor leads nowhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

STRICT = ("--fail-on-warning", "--keep-going", "--nitpicky", "--quiet")
# Files that a browser loads by itself.
LOADED = re.compile(r'<(?:img|script|link|iframe|object)\b[^>]*?\b(?:src|href|data)="([^"]+)"')
FOREIGN = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")


def build(configuration: Path, sources: Path, target: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "sphinx-build"
    command = [str(word) for word in (program, *STRICT, "-c", configuration, sources, target)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build(repository / "docs", repository, target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_every_document_is_a_page(repository: Path, site: Path) -> None:
    """README, the other documents of the root and all of docs have a page, and the search knows each."""
    documents = [Path("README.md"), Path("CONTRIBUTING.md"), Path("CHANGELOG.md"), Path("SECURITY.md")]
    documents += [path.relative_to(repository) for path in (repository / "docs").rglob("*.md")]
    assert len(documents) > 20
    index = (site / "searchindex.js").read_text()
    missing = [str(one) for one in documents if not (site / one.with_suffix(".html")).is_file()]
    missing += [str(one) for one in documents if f'"{one.with_suffix("")}"' not in index]
    assert missing == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """Scripts, styles, fonts and pictures are the site's own files, and there."""
    pages = {path: LOADED.findall(path.read_text()) for path in site.rglob("*.html")}
    loads = [(path, load.split("?")[0]) for path, found in pages.items() for load in found]
    own = [(path, load) for path, load in loads if not load.startswith(("data:", "#"))]
    assert len(own) > 50
    wrong = [f"{path}: {load}" for path, load in own if not (path.parent / unquote(load)).is_file()]
    files = [path for kind in ("*.css", "*.svg", "*.html") for path in site.rglob(kind)]
    wrong += [f"{path}" for path in files if FOREIGN.search(path.read_text())]
    assert wrong == []
