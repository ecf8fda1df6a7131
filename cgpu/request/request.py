# SPDX-License-Identifier: Apache-2.0
"""A container's request: what its words come to under the node's configuration, decided once.

docs/variables.md has the rules. What a request gets on the node's cards is in resolve.py.
"""

from __future__ import annotations

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.request.names import NAMES, share_variable
from cgpu.request.spec import VENDOR, VENDOR_NOTHING, is_closed
from cgpu.request.validate import SourcedValue
from cgpu.slice import BESIDE_MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from cgpu.config.effective import Effective
    from cgpu.request.pod import Pod
    from cgpu.request.spec import Words

FORBIDDEN = "slicing cannot be switched off on this node (allow_disable: false in /etc/cgpu/config.yaml)"

# How the variables begin that device plugins of other systems set, beside NVIDIA_VISIBLE_DEVICES.
OF_DEVICE_PLUGINS = ("ALIYUN_COM_GPU_MEM_", "CGPU_DISABLE", "CUDA_DEVICE_")


class Request:
    """A request for slices. Treat it as read-only.

    words: what names the GPUs, the weight and the priority. amount: of memory; None: the node's
    default_memsize decides, and where that is 0 refusal says why the container does not start, None: it has
    no slice. pod: of a container with shares, which are its whole request; None for any other. shares: their
    ids.
    """

    __slots__ = ("amount", "pod", "refusal", "shares", "words")

    def __init__(
        self,
        words: Words,
        amount: SourcedValue | None = None,
        refusal: CgpuError | None = None,
        pod: Pod | None = None,
        shares: tuple[str, ...] = (),
    ) -> None:
        self.words = words
        self.amount = amount
        self.refusal = refusal
        self.pod = pod
        self.shares = shares

    def is_by_default(self) -> bool:
        """Return whether only the node's default_memsize decides how much memory it is."""
        return self.amount is None and self.pod is None


def is_silent(words: Words) -> bool:
    """Return whether a specification says nothing of GPUs, under any configuration of the node.

    The rights of a privileged container say nothing.
    """
    named = words.nodes is not None and not words.nodes.by_privilege
    said = any(getattr(words, key) is not None for key in (*NAMES, "empty"))
    return not (named or _named_by_variable(words) or said or words.hami or words.shares)


def decide(words: Words, config: Effective) -> Request | None:
    """Return what a container asks for, None where it is not sliced.

    Raises CgpuError when the container would have a GPU unsliced where the node forbids that, and when it
    says something of a slice, and gets none because nothing says how large.
    """
    given = _request_by_shares(words) if words.shares else _request_by_pod(words, config)
    if given is not None:
        return given
    if is_closed(words.pod, config):
        _refuse_words(words)
    named = _naming(words)
    if words.pod is not None and words.pod.sandbox and named is not None and not config.allow_disable:
        raise named.refuse(f"a pod's sandbox is not sliced, and {FORBIDDEN}")
    off = _switching_off(words)
    if off is not None and not config.allow_disable:
        raise off.refuse(FORBIDDEN)
    if off is not None:
        _refuse_beside_amount(off, words.mem)
        return None
    if words.mem is not None or words.container is not None:
        return Request(words, words.mem or words.container)
    if words.dev is not None:
        raise words.dev.refuse(
            "no amount is beside it, of which this is the whole; set both, or set "
            f"{_amount_name(config)}, such as 6G"
        )
    refusal = _refusal_without_amount(words, named, config)
    if named is not None:
        return Request(words, refusal=refusal)
    if refusal is not None:
        raise refusal
    return None


def _request_by_shares(words: Words) -> Request:
    pod = _pod_of_shares(words)
    said = _asking(words)
    if said is not None:
        raise said.refuse(
            f"the container has the share {words.shares[0]}, whose claim says what it gets; leave this out"
        )
    return Request(words, pod=pod, shares=words.shares)


def _request_by_pod(words: Words, config: Effective) -> Request | None:
    """Return the request of a container that names a GPU, where another scheduler decides what it gets.

    What its variables say counts for nothing: a device plugin writes them, and the pod's own come after. None
    where no other scheduler decides. Raises CgpuError.
    """
    pod = words.pod
    if pod is None or not pod.uid or pod.sandbox or is_silent(words) or not is_closed(pod, config):
        return None
    from cgpu import pod_shares

    if not pod_shares.is_on(paths.SHARES):
        return None
    said = next((one for one in _all_asking(words) if not one.source.startswith(OF_DEVICE_PLUGINS)), None)
    if said is not None:
        raise said.refuse("the cluster's scheduler says what this pod gets on this node; leave this out")
    return Request(words, pod=pod, shares=pod_shares.await_shares(pod.uid, pod.container))


def _pod_of_shares(words: Words) -> Pod:
    """Return the pod that a container with shares is of. Raises CgpuError where that is not certain."""
    pod = words.pod
    named = share_variable(words.shares[0])
    if pod is not None and pod.sandbox:
        raise CgpuError(f"{named}: a pod's sandbox has no share; its containers have")
    if pod is None or not pod.uid:
        raise CgpuError(
            f"{named}: shares are for containers of pods, by a claim, and nothing shows for sure that this "
            "is one: expected the annotations of containerd from 1.6.20 on, or of CRI-O"
        )
    return pod


def _refuse_words(words: Words) -> None:
    said = _asking(words)
    if said is None and words.vendor not in VENDOR_NOTHING:
        said = SourcedValue(VENDOR, words.vendor)
    if said is not None:
        raise said.refuse(
            "variables and annotations of a pod ask for no GPU on this node (pod_variables: false in "
            "/etc/cgpu/config.yaml); ask by resources, such as aliyun.com/gpu-mem, or by a claim"
        )


def _asking(words: Words) -> SourcedValue | None:
    """Return the word that asks for a GPU, other than NVIDIA_VISIBLE_DEVICES; None where none does."""
    return next(_all_asking(words), None)


def _all_asking(words: Words) -> Iterator[SourcedValue]:
    yield from filter(None, (getattr(words, key) for key in (*NAMES, "empty")))
    if words.nodes is not None and words.nodes.by_words:
        yield SourcedValue(words.nodes.label, words.nodes.text)


def _naming(words: Words) -> SourcedValue | None:
    """Return the word that names a GPU; None where none does."""
    named = _named_by_variable(words)
    if named is None and words.nodes is not None:
        return SourcedValue(words.nodes.label, words.nodes.text)
    return named


def _named_by_variable(words: Words) -> SourcedValue | None:
    if words.devices is None and words.vendor not in VENDOR_NOTHING:
        return SourcedValue(VENDOR, words.vendor)
    return words.devices


def _switching_off(words: Words) -> SourcedValue | None:
    """Return the word that asks for no slice; None where none does."""
    if words.disable is not None and words.disable.text.lower() in ("true", "1"):
        return words.disable
    numbers = words.container
    return (
        numbers if words.mem is None and numbers is not None and numbers.text.split(",")[0] == "0" else None
    )


def _refuse_beside_amount(off: SourcedValue, mem: SourcedValue | None) -> None:
    """Refuse an amount beside the word that wants no slice, unless an annotation overrules a variable.

    The names of Alibaba's cGPU are no concern: its device plugin sets CGPU_DISABLE beside its amount.
    """
    if mem is not None and mem.trusted == off.trusted:
        raise off.refuse(f"{mem.source}={mem.text} beside it asks for a slice; set one of the two")


def _refusal_without_amount(words: Words, named: SourcedValue | None, config: Effective) -> CgpuError | None:
    """Return why a container without an amount does not start where the node has no default."""
    name = _amount_name(config)
    if words.empty is not None:
        return words.empty.refuse(
            f"no amount; set {name}, such as 6G, or leave it out for a container without a slice"
        )
    beside: list[SourcedValue | None] = [getattr(words, one.asked) for one in BESIDE_MEMORY]
    lonely = next(filter(None, (words.devices, *beside)), None)
    if lonely is not None:
        return lonely.refuse(f"nothing says how much memory the slice has; set {name}, such as 6G, too")
    if named is not None and config.shared_node:
        return named.refuse(
            "a GPU without an amount, and this node has no default (shared_node: true and "
            f"default_memsize: 0 in /etc/cgpu/config.yaml): say how much by {name}"
        )
    return None


def _amount_name(config: Effective) -> str:
    if config.allow_environment:
        return "OPENCGPU_MEM"
    return "the annotation opencgpu.io/mem (variables do not count on this node)"
