# SPDX-License-Identifier: Apache-2.0
"""The documentation site's extensions: links by the paths of documents, and whole manual pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from cgpu.install.packaging import man

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MANUAL = "docs/man/"
HEADING = re.compile(r"^#", re.MULTILINE)


class PathsAreLinks(SphinxTransform):
    """`docs/install.md` in a text is also a link to that page."""

    default_priority = 500

    def apply(self, **_: Any) -> None:
        """Put each code span that is the path of a page into a link."""
        for literal in list(self.document.findall(nodes.literal)):
            path = literal.astext()
            name = path.removesuffix(".md")
            linked = isinstance(literal.parent, nodes.reference | addnodes.pending_xref)
            if path.endswith(".md") and name in self.env.found_docs and not linked:
                link = addnodes.pending_xref(
                    refdomain="std", reftype="doc", reftarget=f"/{name}", refexplicit=True
                )
                link["refdoc"] = self.env.docname
                literal.replace_self(link)
                link += literal


def whole_manual(_: Sphinx, name: str, source: list[str]) -> None:
    """Replace a manual page's text by the page: with a title, and the parsers' words on options."""
    if name.startswith(MANUAL):
        file = name.removeprefix(MANUAL)
        program, _dot, section = file.rpartition(".")
        text = man.page(file, source[0]).split("\n\n", maxsplit=1)[1]
        source[0] = f"# {program}({section})\n\n" + HEADING.sub("##", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of both."""
    app.add_transform(PathsAreLinks)
    app.connect("source-read", whole_manual)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
