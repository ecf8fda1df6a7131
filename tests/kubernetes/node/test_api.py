# SPDX-License-Identifier: Apache-2.0
"""Answers of the API server that cannot be read, as whoever may write an object can cause them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from lightkube import Client
from lightkube.core.decoders import decode_object

from cgpu.kubernetes.node.api import Api, ApiServerError
from cgpu.kubernetes.node.records import ClaimName
from tests.kubernetes.node.objects import CLAIM, NODE, POD

# Go writes the year 0 and years of five digits, which Python has not; parameters have 10 KiB.
TIMES = ("0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z")
DEEP = '{"a":' * 1700 + "1" + "}" * 1700
METADATA = f'{{"uid": "{CLAIM}", "managedFields": [{{"manager": "m", "time": "%s"}}]}}'
PLAIN = f'{{"uid": "{CLAIM}"}}'
OPAQUE = '{"devices": {"config": [{"opaque": {"driver": "other", "parameters": %s}}]}}'


class OneAnswer:
    """A client that always reads one answer."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get(self, kind: type[Any], _name: str, **_: Any) -> Any:
        return decode_object(self.text.encode(), kind)


@pytest.mark.parametrize("time", TIMES)
def test_times_that_python_has_not(time: str) -> None:
    """One line says which object it is."""
    api = Api(cast("Client", OneAnswer(f'{{"metadata": {METADATA % time}, "spec": {{}}}}')), NODE)
    with pytest.raises(ApiServerError, match="claim team/part: the API server's answer cannot be read"):
        api.claim(ClaimName("team", "part", CLAIM))
    with pytest.raises(ApiServerError, match="pod team/one: the API server's answer cannot be read"):
        api.pod("team", "one", POD)


def test_parameters_in_each_other() -> None:
    """Deeper than Python reads."""
    api = Api(cast("Client", OneAnswer(f'{{"metadata": {PLAIN}, "spec": {OPAQUE % DEEP}}}')), NODE)
    with pytest.raises(ApiServerError, match="claim team/part: the API server's answer cannot be read"):
        api.claim(ClaimName("team", "part", CLAIM))
