# SPDX-License-Identifier: Apache-2.0
"""Answers of the API server that cannot be read."""

from __future__ import annotations

from typing import Any, cast

import pytest
from lightkube import Client
from lightkube.core.decoders import decode_object

from cgpu.kubernetes.node.api import Api, ApiServerError
from cgpu.kubernetes.node.records import ClaimName
from tests.kubernetes.node.objects import CLAIM, NODE, POD


class OneAnswer:
    """A client that always reads one answer."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get(self, kind: type[Any], _name: str, **_: Any) -> Any:
        if self.text == "deep":
            raise RecursionError("too deep")
        return decode_object(self.text.encode(), kind)


@pytest.mark.parametrize("text", ["", "{", '{"metadata": 5}', "deep"])
def test_what_cannot_be_read(text: str) -> None:
    """One line says which object it is."""
    api = Api(cast("Client", OneAnswer(text)), NODE)
    with pytest.raises(ApiServerError, match="claim team/part: the API server's answer cannot be read"):
        api.claim(ClaimName("team", "part", CLAIM))
    with pytest.raises(ApiServerError, match="pod team/one: the API server's answer cannot be read"):
        api.pod("team", "one", POD)
