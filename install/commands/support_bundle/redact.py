# SPDX-License-Identifier: Apache-2.0
"""Lines of logs without what looks like a secret. Our own lines have none; the driver's are not ours."""

from __future__ import annotations

import re

from cgpu.errors import one_line

LEFT_OUT = "[left out]"
MAX_LINE = 1000
# A word that names a secret, up to the end of what follows it.
NAMED = re.compile(
    r"(?i)(?<![\w.-])([\w.-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key|credential|authorization|cookie)"
    r"[\w.-]*[\"']?\s*[:=]\s*)(?:(?:bearer|basic)\s+)?(\"[^\"]*(?:\"|$)|'[^']*(?:'|$)|\S+)"
)
BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
# Up to the last @ of the word: a password may have / and @ in it.
IN_URL = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*://)[^\s\"'<>]+@", re.IGNORECASE)
# The start of one whose @ was cut off.
CUT_URL = re.compile(r"(?<![a-z0-9+.-])([a-z][a-z0-9+.-]*://)[^/\s@]+:[^/\s@]*$", re.IGNORECASE)
# NAME=VALUE in capitals is an environment variable. Ours is named in messages of hook and runtime.
VARIABLE = re.compile(r"\b([A-Z][A-Z0-9_]{2,})=(\"[^\"]*(?:\"|$)|'[^']*(?:'|$)|\S*)")


def line(text: str) -> str:
    """Return one line, printable, at most 1000 characters, without what looks like a secret."""
    out = one_line(text[:MAX_LINE])
    out = IN_URL.sub(rf"\1{LEFT_OUT}@", out)
    if len(text) > MAX_LINE:
        out = CUT_URL.sub(rf"\1{LEFT_OUT}", out)
    out = NAMED.sub(rf"\1{LEFT_OUT}", out)
    out = BEARER.sub(rf"\1 {LEFT_OUT}", out)
    return VARIABLE.sub(rf"\1={LEFT_OUT}", out)


def lines(text: str, last: int) -> str:
    """Return the last lines of a text, each without what looks like a secret."""
    return "".join(f"{line(one)}\n" for one in text.splitlines()[-last:])
