# SPDX-License-Identifier: Apache-2.0
"""The documentation site has all documents, and every link and picture in it is there. Needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

STRICT = ("--fail-on-warning", "--keep-going", "--nitpicky", "--quiet")
# What a browser loads by itself, and what a reader follows.
LOADED = {
    "img": "src",
    "script": "src",
    "link": "href",
    "iframe": "src",
    "object": "data",
}
FOREIGN = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")


def build(configuration: Path, sources: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does."""
    program = Path(sys.executable).parent / "sphinx-build"
    command = [str(word) for word in (program, *STRICT, "-c", configuration, sources, target)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


@dataclass
class Page(HTMLParser):
    """The ids of a page, where its links lead to, and what it loads."""

    text: str
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if LOADED.get(tag) in given:
            self.loads.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site, whose building has no warning."""
    target = tmp_path_factory.mktemp("site")
    done = build(repository / "docs", repository, target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    """Return the site's pages by their paths."""
    return {path.resolve(): Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def dead(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    """Say whether a link of a page leads to a file or a place in it that is not there."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return parts.scheme not in ("http", "https", "mailto")
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return True
    return bool(parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids)


def test_every_document_is_a_page(repository: Path, site: Path) -> None:
    """README, CONTRIBUTING, CHANGELOG and all of docs have a page, and the search knows each of them."""
    documents = [Path("README.md"), Path("CONTRIBUTING.md"), Path("CHANGELOG.md")]
    documents += [path.relative_to(repository) for path in (repository / "docs").rglob("*.md")]
    assert len(documents) > 20
    index = (site / "searchindex.js").read_text()
    missing = [str(one) for one in documents if not (site / one.with_suffix(".html")).is_file()]
    missing += [str(one) for one in documents if f'"{one.with_suffix("")}"' not in index]
    assert missing == []


def test_links(site: Path, pages: dict[Path, Page]) -> None:
    """Every link leads to a file that is there, and to an anchor that is in it."""
    links = [(path, link) for path, page in pages.items() for link in page.links]
    assert len(links) > 500
    wrong = {f"{path.relative_to(site)}: {link}" for path, link in links if dead(path, link, pages)}
    assert sorted(wrong) == []


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    """Scripts, styles, fonts and pictures are the site's own files."""
    loads = [(path, load.split("?")[0]) for path, page in pages.items() for load in page.loads]
    assert len(loads) > 50
    wrong = [
        f"{path.relative_to(site)}: {load}"
        for path, load in loads
        if urlsplit(load).netloc or (not load.startswith("data:") and dead(path, load, pages))
    ]
    files = [path for kind in ("*.css", "*.svg", "*.html") for path in site.rglob(kind)]
    wrong += [f"{path.relative_to(site)}" for path in files if FOREIGN.search(path.read_text())]
    assert wrong == []
