# SPDX-License-Identifier: Apache-2.0
"""What the launcher and the hook take of JSON, Python takes as well, and finds the same in it."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import ClassVar

import pytest

from tests.core.build import run, tool
from tests.fuzz.build import PARSERS
from tests.fuzz.corpus import unpack

STRING = 0  # of enum json_kind


class Token(ctypes.Structure):
    """struct json_token of json.h."""

    _fields_: ClassVar = [
        ("kind", ctypes.c_int),
        ("text", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("escaped", ctypes.c_bool),
    ]

    def raw(self) -> str:
        return ctypes.string_at(self.text or 0, self.length).decode("ascii")

    def value(self) -> object:
        """Return what Python makes of this token's text alone."""
        raw = self.raw()
        return json.loads(f'"{raw}"' if self.kind == STRING else raw, object_pairs_hook=list)


Tokens = ctypes.POINTER(Token)
Member = ctypes.CFUNCTYPE(ctypes.c_bool, Tokens, Tokens, ctypes.c_void_p)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("reader") / "json.so"
    run([tool("cc"), "-std=gnu11", "-O1", "-fPIC", "-shared", str(PARSERS[0] / "json.c"), "-o", str(library)])
    loaded = ctypes.CDLL(str(library))
    loaded.json_read_object.argtypes = [ctypes.c_char_p, ctypes.c_size_t, Member, ctypes.c_void_p]
    loaded.json_read_object.restype = ctypes.c_bool
    return loaded


def members(reader: ctypes.CDLL, text: bytes) -> list[tuple[str, object]] | None:
    """Return the members that C finds in a text, None where it does not take it."""
    found: list[tuple[str, object]] = []

    def take(key: ctypes._Pointer[Token], value: ctypes._Pointer[Token], _: object) -> bool:
        found.append((key.contents.raw(), value.contents.value()))
        return True

    return found if reader.json_read_object(text, len(text), Member(take), None) else None


def test_python_finds_the_same(reader: ctypes.CDLL, tmp_path: Path) -> None:
    """Each kept input that C takes is an object for Python, with the same members in the same order."""
    corpus = unpack(tmp_path)
    folders = [corpus / name for name in ("json", "hook_state", "hook_settings")]
    texts = [path.read_bytes() for folder in folders for path in folder.iterdir()]
    taken = 0
    for text in texts:
        found = members(reader, text)
        if found is not None:
            taken += 1
            assert json.loads(text, object_pairs_hook=list) == found, text
    assert 20 < taken < len(texts)
