# SPDX-License-Identifier: Apache-2.0
"""The engine that runs, its GPUs and containers, and what it needs around it."""

from __future__ import annotations

import re
from pathlib import Path

from cgpu import paths, process_identity
from cgpu.client.scheduling import NOBODY, parse
from cgpu.client.tree import DAEMON, MODULE
from cgpu.client.witness import IGNORED, ON, meaning
from cgpu.install.checks.finding import Finding, ok, problem, skipped, warning
from cgpu.install.checks.software import STORE_KEPT
from cgpu.install.node.facts import files
from cgpu.install.node.report import NodeReport
from cgpu.install.node.snapshot import Card

ACCEPTS = 0x10000  # flag of a listening socket in /proc/net/unix
FILES_WANTED = 8192
# The soft limit comes first.
OPEN_FILES = re.compile(r"^Max open files\s+(unlimited|[0-9]{1,20})\s", re.MULTILINE)
LOADED_AT_BOOT = "/etc/modules-load.d"
STARTED_AT_BOOT = "/etc/systemd/system/multi-user.target.wants"
APPLY_UNIT = "cgpu-config-apply.service"
MIB = 1 << 20


def running(now: NodeReport) -> list[Finding]:
    """Whether an engine answers."""
    ours = now.node.ours
    start = paths.start_command(ours.tree)
    if ours.engine is None:
        if now.node.ours.daemon_running and ours.problem is not None:
            return problem("engine", f"cgpud runs and does not answer ({ours.problem})", _restart(now))
        if now.mounted:
            text = f"{ours.tree}: the tree of an engine that is gone is still mounted ({ours.problem})"
            return problem("engine", text, f"cgpu doctor --fix, then: {start}")
        return problem("engine", ours.problem or f"{ours.tree}: the engine is not running", start)
    if now.status_problem is not None:
        return problem("engine", now.status_problem, paths.daemon_command("restart"))
    return ok("engine", f"{ours.engine} {ours.version} answers at {ours.tree}")


def versions(now: NodeReport) -> list[Finding]:
    """Whether engine and commands are of one release."""
    ours = now.node.ours
    if ours.engine is None:
        return skipped("versions", "no engine answers")
    if ours.version == ours.commands:
        return ok("versions", f"engine and commands are {ours.commands}")
    text = f"{ours.engine} is {ours.version}, the commands are {ours.commands}"
    return warning("versions", text, "cgpu upgrade")


def enforcing(now: NodeReport) -> list[Finding]:
    """Whether limits are held at all."""
    if now.node.ours.engine is None:
        return skipped("enforce", "no engine answers")
    if now.node.ours.enforces:
        return ok("enforce", "limits are held")
    return problem("enforce", "the engine counts and refuses nothing", "cgpu config set enforce true --apply")


def pages(now: NodeReport) -> list[Finding]:
    """Whether the engine limits the pages that the driver gives out, or calls alone."""
    ours = now.node.ours
    if ours.engine != MODULE:
        return _witness(ours.witness)
    if ours.counts_pages:
        return ok("pages", "the driver's pages are counted and limited")
    text = (
        "calls alone are counted: page tables, and what else the driver takes by itself, are not in the limit"
    )
    if now.node.driver.loaded is not None and now.node.driver.kind != "open":
        return warning("pages", text, "load the driver's open flavour, if the cards are Turing or newer")
    return warning("pages", text, "cgpu config set count_pages true --apply")


def _witness(word: str) -> list[Finding]:
    if not word:
        return skipped("pages", "only cgpu_km counts the driver's pages: calls alone are counted")
    text, command = meaning(word)
    if word == ON:
        return ok("pages", text)
    text = f"calls alone are counted: {text}"
    return warning("pages", text, command) if command and word != IGNORED else skipped("pages", text)


def driver(now: NodeReport) -> list[Finding]:
    """Whether cgpud's driver answers."""
    if now.status is None:
        return skipped("engine-driver", "cgpud does not run")
    error = now.status.get("driver_error")
    if error and now.status.get("simulate"):
        text = f"the simulated cards do not answer ({error}), so containers have no GPU any more"
        return problem("engine-driver", text, _restart(now))
    if error:
        return problem("engine-driver", f"{error}", "nvidia-smi; the driver's own lines: dmesg | grep NVRM")
    return ok("engine-driver", "cgpud's driver answers")


def tree(now: NodeReport) -> list[Finding]:
    """Whether every node can be read."""
    found = now.snapshot
    if found is None:
        if now.node.ours.engine is None:
            return skipped("tree", "no engine answers")
        return problem("tree", now.tree_problem or "the tree cannot be read", _restart(now))
    if found.unreadable:
        more = f" (and {len(found.unreadable) - 1} more)" if len(found.unreadable) > 1 else ""
        return problem("tree", f"{found.unreadable[0]}{more}", "see the engine's log")
    if not found.cards:
        return problem("tree", "the engine has no GPU", "ls -l /dev/nvidia*; modprobe nvidia nvidia-uvm")
    return ok("tree", f"{len(found.cards)} GPUs")


def listener(now: NodeReport) -> list[Finding]:
    """Whether runtimes can hand containers' listeners over to cgpud."""
    if now.node.ours.engine != DAEMON:
        return skipped("listener", "only cgpud has one")
    # The path leads to the tree, where the socket is.
    bound = f"{now.node.ours.tree}/{Path(paths.SECCOMP_SOCKET).name}"
    if bound in listening(files.text(now.node.root, "/proc/net/unix", 1 << 24) or ""):
        return ok("listener", f"{paths.SECCOMP_SOCKET} accepts connections")
    return problem("listener", f"{paths.SECCOMP_SOCKET}: nobody listens there", _restart(now))


def listening(table: str) -> set[str]:
    """Return the paths of sockets that accept, out of /proc/net/unix."""
    found = set()
    for line in table.splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and re.fullmatch(r"[0-9A-Fa-f]{8}", fields[3]) and int(fields[3], 16) & ACCEPTS:
            found.add(fields[7])
    return found


def descriptor_store(now: NodeReport) -> list[Finding]:
    """Whether systemd or the keeper holds the containers' descriptors while cgpud is away."""
    name = "descriptor-store"
    if now.node.ours.engine != DAEMON:
        return skipped(name, "only cgpud needs one")
    if now.unit.get("ActiveState") != "active":
        return _keeper(now)
    version = now.node.software.systemd_version
    if version is not None and version < STORE_KEPT:
        text = f"systemd {version}: `systemctl stop cgpud` would take running containers' GPUs away"
        return warning(name, text, "use systemctl restart cgpud, never stop, while sliced containers run")
    if now.unit.get("FileDescriptorStorePreserve") != "yes":
        text = f"{now.node.ours.unit}: FileDescriptorStorePreserve is not yes"
        return problem(name, text, "cgpu install --engine daemon")
    held, most = now.unit.get("NFileDescriptorStore", "?"), now.unit.get("FileDescriptorStoreMax", "?")
    if held == most:
        return problem(name, f"all {most} places are taken", "raise FileDescriptorStoreMax in the unit")
    return ok(name, f"systemd holds {held} of {most} descriptors")


def _keeper(now: NodeReport) -> list[Finding]:
    name = "descriptor-store"
    table = files.text(now.node.root, "/proc/net/unix", 1 << 24) or ""
    heard = any(line.endswith(" " + paths.KEEPER_SOCKET) for line in table.splitlines())
    if heard and _keeper_lives(now.node.root):
        return ok(name, "cgpud's keeper holds them")
    text = "nothing keeps the descriptors of running containers: they lose their GPUs when cgpud ends"
    return warning(name, text, "end the sliced containers, then: " + paths.daemon_command("restart"))


def _keeper_lives(root: Path) -> bool:
    """Say whether the process lives that has written the lock: the socket may be of another /run."""
    holder = process_identity.parse((files.text(root, paths.LOCK, process_identity.MAX_BYTES) or "").encode())
    return holder == process_identity.NOBODY or holder.lives(files.follow(root, "/proc"))


def limits(now: NodeReport) -> list[Finding]:
    """How many files cgpud may have open."""
    pid = (now.status or {}).get("pid")
    if not isinstance(pid, int) or not files.follow(now.node.root, f"/proc/{pid}").exists():
        return skipped("limits", "cgpud does not run")
    allowed = OPEN_FILES.search(files.text(now.node.root, f"/proc/{pid}/limits") or "")
    if allowed is None:
        return skipped("limits", f"/proc/{pid}/limits cannot be read")
    if allowed[1] == "unlimited" or int(allowed[1]) >= FILES_WANTED:
        named = "any number of" if allowed[1] == "unlimited" else allowed[1]
        return ok("limits", f"cgpud can open {named} files")
    return warning(
        "limits",
        f"cgpud can open only {allowed[1]} files; below {FILES_WANTED} managed memory or exports fail",
        f"LimitNOFILE=65536 in the unit, or ulimit -n 65536 before cgpud; then: {_restart(now)}",
    )


def start_at_boot(now: NodeReport) -> list[Finding]:
    """Whether the engine comes back after a boot."""
    node, name = now.node, "start-at-boot"
    if not node.software.systemd:
        return skipped(name, "systemd does not run here")
    if now.kind == "module":
        return _module_at_boot(node.root, name)
    if node.ours.unit is None:
        return warning(name, "cgpud has no unit: it does not start at boot", "cgpu install --engine daemon")
    if now.unit.get("UnitFileState") in ("enabled", "enabled-runtime", "static", "alias"):
        return ok(name, f"{node.ours.unit} is enabled")
    return warning(name, f"{node.ours.unit} is not enabled", "systemctl enable cgpud")


def _module_at_boot(root: Path, name: str) -> list[Finding]:
    loaded = (files.text(root, f"{LOADED_AT_BOOT}/{one}") or "" for one in files.names(root, LOADED_AT_BOOT))
    if not any("cgpu_km" in text.split() for text in loaded):
        return warning(
            name, f"{LOADED_AT_BOOT}: cgpu_km is not loaded at boot", "cgpu install --engine module"
        )
    if APPLY_UNIT not in files.names(root, STARTED_AT_BOOT):
        text = f"{APPLY_UNIT} is not enabled: cgpu_km refuses slices after a boot, until cgpu-config-apply"
        return warning(name, text, f"systemctl enable {APPLY_UNIT}")
    return ok(name, "cgpu_km is loaded and configured at boot")


def _restart(now: NodeReport) -> str:
    return (
        paths.daemon_command("restart") if now.kind == "daemon" else "modprobe -r cgpu_km; modprobe cgpu_km"
    )


def drift(now: NodeReport) -> list[Finding]:
    """Unaccounted memory."""
    if now.snapshot is None:
        return skipped("drift", "the tree cannot be read")
    config = now.in_force or now.wanted
    if config is None:
        return skipped("drift", "the configuration cannot be read")
    beyond = [
        (card, found)
        for card in now.snapshot.cards
        if (found := card.number("drift")) is not None and found > config.drift_tolerance
    ]
    if not beyond:
        return ok(
            "drift",
            f"no GPU has more than {config.drift_tolerance // MIB} MiB in use and charged to no container",
        )
    named = ", ".join(f"GPU {card.index}: {found // MIB} MiB" for card, found in beyond)
    fix = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv shows who has memory"
    text = f"{named} are in use and charged to no container"
    if config.drift_reaction == "refuse":
        return problem("drift", f"{text}; sliced containers get nothing more there", fix)
    return warning("drift", text, fix)


def time_division(now: NodeReport) -> list[Finding]:
    """Whether the engine or the driver divides GPU time by policy and weights."""
    if now.snapshot is None:
        return skipped("time-division", "the tree cannot be read")
    nobody = [card for card in now.snapshot.cards if parse(card.nodes.get("sched", "")).divided_by == NOBODY]
    if nobody:
        return problem(
            "time-division",
            f"{_named(nobody)}: nothing divides GPU time, whatever policy and weights say",
            "the engine's log says what the driver lacks: GSP firmware, as a rule",
        )
    return ok("time-division", "policies and weights are kept")


def lost(now: NodeReport) -> list[Finding]:
    """Cards of the engine that the driver no longer reaches."""
    if now.snapshot is None:
        return skipped("engine-lost", "the tree cannot be read")
    gone = [card for card in now.snapshot.cards if card.is_lost()]
    if not gone:
        return ok("engine-lost", "the driver reaches all of the engine's GPUs")
    text = f"{_named(gone)}: fallen off the bus, the driver no longer reaches it"
    fix = "the driver's own lines say why: dmesg | grep NVRM; then restart the machine"
    if len(gone) == len(now.snapshot.cards):
        return problem("engine-lost", text, fix)
    return warning("engine-lost", text, fix)


def mig(now: NodeReport) -> list[Finding]:
    """Cards of the engine that are in MIG mode."""
    if now.snapshot is None:
        return skipped("engine-mig", "the tree cannot be read")
    cut = [card for card in now.snapshot.cards if card.nodes.get("mig") == "1"]
    if not cut:
        return ok("engine-mig", "none of the engine's GPUs is in MIG mode")
    fix = "; ".join(f"nvidia-smi -i {card.nodes.get('uuid', card.index)} -mig 0" for card in cut)
    text = f"{_named(cut)}: in MIG mode, cannot be sliced"
    if len(cut) == len(now.snapshot.cards):
        return problem("engine-mig", text, fix)
    return warning("engine-mig", text, fix)


def containers(now: NodeReport) -> list[Finding]:
    """Registrations whose container has no process any more."""
    if now.snapshot is None:
        return skipped("containers", "the tree cannot be read")
    slices = [one for card in now.snapshot.cards for one in card.slices]
    left = sorted({one.id for one in slices if one.cgroup is not None and not one.is_among(now.cgroups)})
    if left:
        return problem("containers", f"{', '.join(left)}: registered, and no process is left", "cgpu gc")
    count = len({one.id for one in slices})
    return ok("containers", f"{count} containers are registered")


def _named(cards: list[Card]) -> str:
    return ", ".join(f"GPU {card.index}" for card in cards)
