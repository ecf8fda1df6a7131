# SPDX-License-Identifier: Apache-2.0
"""The module for a soak, on the fake driver, in a virtual machine: the guest's shell does most of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.soak.flow import Life, Registration
from tests.vm.harness import node
from tests.vm.harness.kernels import choose_kernel
from tests.vm.harness.machine import Machine
from tests.vm.harness.slices import PROBE, await_empty

TIMEOUT_S = 1200
# Each line: a number, the expected error or -, and the request.
REGISTER = """
group=/sys/fs/cgroup/soak
mkdir -p $group
/bin/busybox sleep 100000 </dev/null >/dev/null 2>&1 &
echo $! >$group/cgroup.procs
while read -r number error words; do
	found=-
	{ echo "create id=soak$number pid=$! $words" >"$1/inst_ctl"; } 2>/dev/null || found=+
	case $found$error in -- | +E*) ;; *) exit 1 ;; esac
	[ $found = + ] || echo "destroy id=soak$number" >"$1/inst_ctl"
done
echo 1 >$group/cgroup.kill
until rmdir $group 2>/dev/null; do /bin/busybox sleep 0.05; done
"""
# Each line: number, kind and bytes of a life.
BEGIN = """
while read -r number kind bytes; do
	words="alloc=32M hold=3600" group=/sys/fs/cgroup/life$number said=/tmp/life$number
	mkdir $group
	mkfifo $said.go
	[ $kind != over ] || words="alloc=$((bytes >> 19))M info"
	[ $kind != ends ] || words="alloc=32M info free=all"
	/bin/busybox sh -c 'read -r go <$0.go; exec "$@"' $said "$2" $words </dev/null >$said 2>&1 &
	echo $! >$group/cgroup.procs
	echo "create id=life$number pid=$! gpu=0:$bytes" >"$1/inst_ctl"
	until echo >$said.go; do :; done # the end of another one interrupts it
done
"""
END = """
while read -r number kind bytes; do
	group=/sys/fs/cgroup/life$number said=/tmp/life$number tries=3000
	until grep -q ^alloc $said; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || { cat $said; exit 1; }
		/bin/busybox sleep 0.02
	done
	[ $kind != removed ] || echo "destroy id=life$number" >"$1/inst_ctl"
	case $kind in killed | removed) echo 1 >$group/cgroup.kill ;; esac
	until rmdir $group 2>/dev/null; do /bin/busybox sleep 0.02; done
	[ $kind != over ] || grep -q "^alloc.*status=0x51" $said
	[ $kind != ends ] || grep -q "^free all count=1 status=0x0" $said
	rm $said $said.go
done
"""
# Groups that have ended are freed some time later.
MEMORY = """
sync
echo 3 >/proc/sys/vm/drop_caches
/bin/busybox sleep 5
sed -n 's/^\\(SUnreclaim\\|VmallocUsed\\|Percpu\\): *\\([0-9]*\\) kB/\\1 \\2/p' /proc/meminfo
"""


@contextmanager
def started() -> Iterator[Module]:
    """Yield it, in a machine of its own; its kernel has no fault, and lets the module go at the end."""
    with tempfile.TemporaryDirectory() as folder, Machine(choose_kernel(), Path(folder)) as machine:
        machine.wait_ready()
        node.load_driver(machine)
        node.load_engine(machine)
        yield Module(machine)
        node.unload_engine(machine)
        assert machine.problems() == []


class Module:
    """The module in a machine, with two cores that take over from each other."""

    def __init__(self, machine: Machine) -> None:
        """Remember how it is at the start."""
        self._machine = machine
        self._cores = [
            *node.build_engine(machine.kernel).glob("cgpu_core_*.ko"),
            node.build_core(machine, "0.1.1"),
        ]
        self._entries = self._tree()

    def register(self, asked: Sequence[Registration]) -> int:
        lines = [f"{number} {error or '-'} {words}\n" for number, words, error in asked]
        self._shell(REGISTER, lines)
        return sum(error != "" for _, _, error in asked)

    def begin(self, lives: Sequence[Life]) -> None:
        self._shell(BEGIN, [f"{number} {kind} {size}\n" for number, kind, size in lives])

    def end(self, lives: Sequence[Life]) -> None:
        self._shell(END, [f"{number} {kind} {size}\n" for number, kind, size in lives])

    def change(self) -> int:
        new, old = sorted(self._cores, key=lambda core: core.stem in node.loaded(self._machine))
        node.insmod(self._machine, new)
        node.write(self._machine, "upgrade", "1").check()
        node.rmmod(self._machine, old.stem)
        return 0

    def memory(self) -> dict[str, int]:
        lines = self._machine.shell(MEMORY, timeout=120).stdout.splitlines()
        return {name: int(kib) for name, kib in map(str.split, lines)}

    def left(self) -> list[str]:
        await_empty(self._machine)
        return sorted(self._tree() - self._entries)

    def _tree(self) -> set[str]:
        return set(self._machine.shell('find "$1"', node.TREE).stdout.splitlines())

    def _shell(self, script: str, lines: Sequence[str]) -> None:
        words = ["/bin/busybox", "sh", "-euc", script, "sh", node.TREE, self._machine.seen(PROBE)]
        self._machine.run(words, input="".join(lines), timeout=TIMEOUT_S)
