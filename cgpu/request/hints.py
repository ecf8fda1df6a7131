# SPDX-License-Identifier: Apache-2.0
"""Proposals for malformed values. Imported only where a container is refused.

A proposal is always a value that would have been well formed: it is asked of validate.py.
"""

from __future__ import annotations

import re
import unicodedata

from cgpu.request.names import PREFIX
from cgpu.request.validate import expected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 64  # a longer value is no slip of a finger
MOST_OF_A_RANGE = 64
SIZE = re.compile(r"([0-9]+(?:[.][0-9]+)?)[ ]*([kmgt])[a-z]*", re.IGNORECASE)
WORD_BEFORE_INDEX = re.compile(r"(?:/dev/)?(?:nvidia|gpu|cuda:|device=|[a-z.]+/gpu=)([0-9]+)", re.IGNORECASE)
UUID_ALONE = re.compile(r"[0-9a-f]{8}[0-9a-f-]*", re.IGNORECASE)
RANGE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")
NO_GPU = ("none", "void", "no")
WHOLE = ("all", "max", "full", "whole")


def hint(key: str, name: str, value: object) -> str:
    """Return the end of a message about a malformed value; nothing where no slip is known.

    key: of names.NAMES. name: of the variable, annotation or option that has the value.
    """
    if not isinstance(value, str) or len(value) > LONGEST:
        return ""
    bare = _bare(value)
    for candidate in (bare, *_candidates(key, bare)):
        if candidate and expected(key, candidate) is None:
            return f"; did you mean {candidate}{_without(value)}?"
    return _advice(key, name, bare)


def _bare(value: str) -> str:
    """Return a value without what a shell, a compose file or an input method has added."""
    text = unicodedata.normalize("NFKC", value).strip().strip("'\"`").strip()
    return "".join(str(unicodedata.decimal(letter, letter)) for letter in text)


def _without(value: str) -> str:
    if value[0] in "'\"`" or value[-1] in "'\"`":
        return " without quotes"
    return " without blanks" if value != value.strip() else ""


def _candidates(key: str, text: str) -> Iterator[str]:
    yield text.lower()
    yield text.removeprefix("+")
    yield text.lstrip("0")
    yield re.sub(r"\s+", "", text)
    yield re.sub(r"[\s;,]+", ",", text).strip(",")
    if key == "mem":
        yield from _sizes(text)
    if key == "devices":
        yield from _devices(text)


def _sizes(text: str) -> Iterator[str]:
    if text.startswith("."):
        yield f"0{text}"
    if text.lower() in WHOLE:
        yield "100%"
    size = SIZE.fullmatch(text)
    if size is not None:
        yield f"{size[1]}{size[2].upper()}"


def _devices(text: str) -> Iterator[str]:
    parts = re.sub(r"[\s;,]+", ",", text).strip(",").split(",")
    if any(part.lower() == "all" for part in parts):
        yield "all"
    yield ",".join(_device(part) for part in parts)
    found = RANGE.fullmatch(text)
    if found is not None and int(found[1]) < int(found[2]) <= int(found[1]) + MOST_OF_A_RANGE:
        yield ",".join(str(index) for index in range(int(found[1]), int(found[2]) + 1))


def _device(text: str) -> str:
    word = text.strip("'\"")
    index = WORD_BEFORE_INDEX.fullmatch(word)
    if index is not None:
        return index[1].lstrip("0") or "0"
    if UUID_ALONE.fullmatch(word):
        return f"GPU-{word}"
    return word.lstrip("0") or "0" if word.isdigit() else word


def _advice(key: str, name: str, text: str) -> str:
    """Return what leads on where no value of this name would do."""
    prefix = PREFIX if name.startswith(PREFIX) else "OPENCGPU_"
    memory = f"{prefix}{'mem' if prefix == PREFIX else 'MEM'}"
    if key in ("container", "dev") and (SIZE.fullmatch(text) or text.endswith("%")):
        size = next((one for one in (text, *_sizes(text)) if expected("mem", one) is None), "6G")
        instead = f"set {memory}={size} instead" if key == "container" else f"set {memory}=6G alone"
        return f"; for a size with a unit {instead}"
    if key == "container" and "0" in text.split(","):
        gpus = f"{prefix}{'gpus' if prefix == PREFIX else 'GPUS'}"
        return f"; name only the GPUs that are sliced, such as {gpus}=0"
    if key in ("mem", "devices") and text.lower() in NO_GPU:
        return "; for a container without a slice leave all of this out"
    return ""
