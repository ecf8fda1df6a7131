# SPDX-License-Identifier: Apache-2.0
"""Programs that tests of clients run inside of containers, by the host's Python."""

# One question after another, as tools put them, with the answers as JSON.
ML = r"""
import json, pynvml as n
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)
memory = n.nvmlDeviceGetMemoryInfo(card)
second = n.nvmlDeviceGetMemoryInfo(card, n.nvmlMemory_v2)
print(json.dumps({
    "driver": n.nvmlSystemGetDriverVersion(),
    "count": n.nvmlDeviceGetCount(),
    "name": n.nvmlDeviceGetName(card),
    "uuid": n.nvmlDeviceGetUUID(card),
    "memory": [memory.total, memory.used, memory.free],
    "memory_v2": [second.total, second.used, second.free, second.reserved],
    "processes": [[p.pid, p.usedGpuMemory] for p in n.nvmlDeviceGetComputeRunningProcesses(card)],
    "graphics": len(n.nvmlDeviceGetGraphicsRunningProcesses(card)),
    "compute": n.nvmlDeviceGetCudaComputeCapability(card),
    "bus": n.nvmlDeviceGetPciInfo(card).busId,
}))
n.nvmlShutdown()
"""

# A program of the whole screen in a terminal of its own, until it shows the probe; prints what it wrote.
SCREEN = r"""
import fcntl, os, pty, re, select, signal, struct, sys, termios, time
child, terminal = pty.fork()
if child == 0:
    os.environ.update(TERM="xterm", HOME="/tmp")
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 150, 0, 0))
end, out = time.monotonic() + 60, b""
while time.monotonic() < end and b"/cgpu-probe" not in out:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            out += os.read(terminal, 65536)
        except OSError:
            break
os.kill(child, signal.SIGTERM)
words = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][B0]|\x1b.|[\x00-\x1f]", b" ", out)
print(" ".join(words.decode(errors="replace").split()))
"""
