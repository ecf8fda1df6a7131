# SPDX-License-Identifier: Apache-2.0
"""The two sockets by which the kubelet finds and calls the agent.

Both have the pod's UID in their names, so that the agent of a new version can serve beside the old one
(k8s.io/kubelet, pkg/apis; k8s.io/dynamic-resource-allocation, kubeletplugin).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Condition
from typing import Any

import grpc
from google.protobuf.message import Message

from cgpu.errors import CgpuError, one_line
from cgpu.kubernetes.names import DRIVER
from cgpu.kubernetes.node import cdi
from cgpu.kubernetes.node.allocation import AllocatedShare
from cgpu.kubernetes.node.health import WORDS, Health
from cgpu.kubernetes.node.prepare import Claims
from cgpu.kubernetes.node.records import ClaimName, Record
from cgpu.kubernetes.node.sockets import Sockets
from cgpu.kubernetes.proto import dra_pb2, health_pb2, registration_pb2
from cgpu.service_log import ERROR, WARNING, Say

VERSIONS = ("v1.DRAPlugin", "v1.DRAResourceHealth")
# Both are the same on the wire. The kubelet of 1.37 asks for the first, older ones for the second.
HEALTH = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
WORKERS = 8
HEALTH_S = 10.0  # between two reports where nothing changes
HEALTH_TIMEOUT_S = 60
CLAIM_TIMEOUT_S = 5  # what a call in work gets when the agent ends


class HealthReport:
    """Health of the cards for the kubelet; a change wakes waiting threads."""

    def __init__(self, pool: str) -> None:
        """Start with no card. pool: the name of the node's devices."""
        self._pool = pool
        self._changed = Condition()
        self._health: Sequence[Health] = ()
        self._ended = False

    def set(self, health: Sequence[Health]) -> None:
        """Say how the cards are."""
        with self._changed:
            changed = [one.condition for one in health] != [one.condition for one in self._health]
            self._health = health
            if changed:
                self._changed.notify_all()

    def end(self) -> None:
        """Have all streams end."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def stream(self, _request: Message, context: grpc.ServicerContext) -> Iterator[Message]:
        """Yield a report at each change, and every ten seconds."""
        while context.is_active() and not self._ended:
            with self._changed:
                health = self._health
            yield health_pb2.NodeWatchResourcesResponse(devices=[self._device(one) for one in health])
            with self._changed:
                if self._health is health and not self._ended:
                    self._changed.wait(HEALTH_S)

    def _device(self, one: Health) -> health_pb2.DeviceHealth:
        well = one.condition == "well"
        return health_pb2.DeviceHealth(
            device=health_pb2.DeviceIdentifier(pool_name=self._pool, device_name=one.card.device),
            health=health_pb2.HEALTHY if well else health_pb2.UNHEALTHY,
            last_updated_time=int(time.time()),
            health_check_timeout_seconds=HEALTH_TIMEOUT_S,
            message="" if well else WORDS[one.condition],
        )


class Plugin:
    """The services of the agent."""

    def __init__(self, claims: Claims, pool: str, sockets: Sockets, report: HealthReport, log: Say) -> None:
        """Serve these claims. Nothing is opened yet."""
        self._claims = claims
        self._pool = pool
        self._sockets = sockets
        self._report = report
        self._log = log
        self._service = grpc.server(ThreadPoolExecutor(WORKERS))
        self._registration = grpc.server(ThreadPoolExecutor(2))

    def start(self) -> None:
        """Open the service, then the registration, by which the kubelet finds it. Raises OSError."""
        with self._sockets.alone():
            for path in self._sockets.remove_dead():
                self._log(f"{path}: removed, its agent has been killed", WARNING)
            for server, path, handlers in (
                (self._service, self._sockets.service, self._service_handlers()),
                (self._registration, self._sockets.registration, [self._registration_handler()]),
            ):
                path.unlink(missing_ok=True)
                server.add_generic_rpc_handlers(tuple(handlers))
                server.add_insecure_port(f"unix:{path}")
                server.start()

    def stop(self) -> None:
        """Leave the kubelet: first the registration goes, then calls in work may end."""
        self._sockets.registered.unlink(missing_ok=True)
        self._registration.stop(0).wait()
        self._sockets.registration.unlink(missing_ok=True)
        self._report.end()
        self._service.stop(CLAIM_TIMEOUT_S).wait()
        self._sockets.service.unlink(missing_ok=True)

    def _registration_handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "pluginregistration.Registration",
            {
                "GetInfo": _unary(self._info, registration_pb2.InfoRequest),
                "NotifyRegistrationStatus": _unary(self._registered, registration_pb2.RegistrationStatus),
            },
        )

    def _service_handlers(self) -> list[grpc.GenericRpcHandler]:
        methods = {
            "NodePrepareResources": _unary(self._prepare, dra_pb2.NodePrepareResourcesRequest),
            "NodeUnprepareResources": _unary(self._unprepare, dra_pb2.NodeUnprepareResourcesRequest),
        }
        watch = grpc.unary_stream_rpc_method_handler(
            self._report.stream,
            request_deserializer=health_pb2.NodeWatchResourcesRequest.FromString,
            response_serializer=_bytes,
        )
        return [
            grpc.method_handlers_generic_handler("k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", methods),
            *(grpc.method_handlers_generic_handler(name, {"NodeWatchResources": watch}) for name in HEALTH),
        ]

    def _info(self, _request: Message, _context: grpc.ServicerContext) -> Message:
        return registration_pb2.PluginInfo(
            type="DRAPlugin",
            name=DRIVER,
            endpoint=str(self._sockets.service),
            supported_versions=VERSIONS,
        )

    def _registered(
        self, request: registration_pb2.RegistrationStatus, _context: grpc.ServicerContext
    ) -> Message:
        if request.plugin_registered:
            self._sockets.registered.touch()
            self._log("the kubelet knows this driver")
        else:
            self._sockets.registered.unlink(missing_ok=True)
            self._log(f"the kubelet refused this driver: {request.error}", ERROR)
        return registration_pb2.RegistrationStatusResponse()

    def _prepare(
        self, request: dra_pb2.NodePrepareResourcesRequest, _context: grpc.ServicerContext
    ) -> Message:
        response = dra_pb2.NodePrepareResourcesResponse()
        for name in _names(request.claims):
            try:
                record = self._claims.prepare(name)
                devices = [_device(self._pool, share, isolated=record.isolated) for share in record.shares]
            except (CgpuError, OSError) as error:
                self._log(f"{name}: not prepared: {_words(error)}", ERROR, _fields(name))
                response.claims[name.uid].error = _words(error)
            else:
                self._log(f"{name}: prepared, {len(devices)} shares", fields=_fields_of(record))
                response.claims[name.uid].devices.extend(devices)
        return response

    def _unprepare(
        self, request: dra_pb2.NodeUnprepareResourcesRequest, _context: grpc.ServicerContext
    ) -> Message:
        response = dra_pb2.NodeUnprepareResourcesResponse()
        for name in _names(request.claims):
            answer = response.claims[name.uid]
            try:
                self._claims.unprepare(name.uid)
            except (CgpuError, OSError) as error:
                self._log(f"{name}: not given back: {_words(error)}", ERROR, _fields(name))
                answer.error = _words(error)
            else:
                self._log(f"{name}: given back", fields=_fields(name))
        return response


def _unary(behaviour: Callable[..., Message], request: type[Any]) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        behaviour, request_deserializer=request.FromString, response_serializer=_bytes
    )


def _bytes(message: Message) -> bytes:
    return message.SerializeToString()


def _names(claims: Iterable[dra_pb2.Claim]) -> Iterator[ClaimName]:
    for claim in claims:
        yield ClaimName(claim.namespace, claim.name, claim.uid)


def _fields(name: ClaimName) -> dict[str, str]:
    return {"namespace": name.namespace, "claim": name.name}


def _fields_of(record: Record) -> dict[str, str]:
    """Return also the pod of a claim and its GPU, where each is one."""
    pods, gpus = set(record.names.values()), {share.gpu for share in record.shares}
    found = _fields(record.claim)
    for key, values in (("pod", pods), ("uuid", gpus)):
        if len(values) == 1:
            found[key] = values.pop()
    return found


def _device(pool: str, share: AllocatedShare, *, isolated: bool) -> dra_pb2.Device:
    return dra_pb2.Device(
        # The kubelet knows a request with alternatives by the request's name, as containers do.
        request_names=[share.request.partition("/")[0]],
        pool_name=pool,
        device_name=share.device,
        cdi_device_ids=[cdi.device_id(share.share) if isolated else cdi.whole_card(share.gpu)],
        share_id=share.share,
    )


def _words(error: Exception) -> str:
    """Return one line, which the kubelet shows in the pod's events."""
    return one_line(str(error))
