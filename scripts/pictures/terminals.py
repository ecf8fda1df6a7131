# SPDX-License-Identifier: Apache-2.0
"""Draw docs/images/demo.svg, and cgpu-smi and cgpu-top in dark and light, narrow and wide, as in a terminal.

usage: python -m scripts.pictures.terminals [OUTDIR]
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from cgpu.smi.main import Shot
from cgpu.top.columns import HISTORY
from cgpu.top.screen import Top
from scripts.demo import usages
from scripts.pictures import loaded
from tests.integration.commands import eventually
from tests.integration.engine import SMI, Engine
from tests.integration.runtimes import Docker

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
COLUMNS = 112
PROMPT = "$ "
# By what is added to a picture's name. From 120 columns on the table of cgpu-smi is no wider.
TABLES = {"": 80, "-wide": 120}
SCREENS = {"": (112, 24), "-wide": (160, 24)}
DELAY_S = 2.0  # the engine knows GPU time once a second
MEMORY_AGE_S = 2.0  # the engine asks a card once a second how much of its memory is taken
# The colours of GNOME's terminal, and its dark and its light window.
PLAIN = ["171421", "c01c28", "26a269", "a2734c", "12488b", "a347ba", "2aa1b3", "d0cfcc"]
BRIGHT = ["5e5c64", "f66151", "33d17a", "e9ad0c", "2a7bde", "c061cb", "33c7de", "ffffff"]
WINDOWS = {"": ("1d1d1d", "d0cfcc"), "-light": ("ffffff", "171421")}
# rich's own format has the browser load a font from a content delivery network, and links to its maker. With
# ligatures its font would draw 2x7 with another sign, and rules without a gap, as no terminal does.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\n|<!--.*?-->\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
FORMAT = FORMAT.replace("Fira Code, monospace;", "Fira Code, monospace; font-variant-ligatures: none;")
# Name of a container, its slice, its weight, and its probe's steps.
CONTAINERS = (
    ("trainer", "6G", 2, ["alloc=4G", "group", "busy=60s:1ms"]),
    ("inference", "5G", 1, ["alloc=3G", "group", "busy=60s:1ms"]),
    ("notebook", "3G", 1, ["alloc=512M", "hold=60"]),
)


def line(text: str) -> Text:
    """Return a line of output in the colours of a terminal: headings and commands stand out."""
    if text.startswith("== "):
        return Text(text, style="bold")
    if text.startswith(PROMPT):
        return Text.assemble((PROMPT, "green"), (text.removeprefix(PROMPT), "bold"))
    return Text(text)


def draw(printed: str, title: str, path: Path, columns: int, colours: TerminalTheme) -> None:
    """Write what was printed as SVG."""
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, width=columns, file=nowhere, force_terminal=True, legacy_windows=False)
        for text in printed.strip().splitlines():
            console.print(line(text))
        path.write_text(
            console.export_svg(title=title, theme=colours, code_format=FORMAT, unique_id=path.stem)
        )


def demo() -> str:
    """Return what `make demo` prints once everything is built."""
    command = [sys.executable, "-m", "scripts.demo"]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def start(docker: Docker, name: str, size: str, weight: int, words: list[str]) -> None:
    """Start a container in a slice."""
    environment = {"OPENCGPU_MEM": size, "OPENCGPU_WEIGHT": str(weight)}
    done = docker.start(name, ["/cgpu-probe", *words], environment)
    if done.returncode != 0:
        raise RuntimeError(done.text)


@contextmanager
def node() -> Iterator[None]:
    """Have three containers in slices, of which two compute. Tools find their Docker."""
    before = os.environ.get("DOCKER_HOST")
    with tempfile.TemporaryDirectory(prefix="cgpu-pictures-") as name:
        engine = Engine("T4", {}, Path(name))
        engine.start()
        try:
            with closing(Docker(Path(name))) as docker:
                for container in CONTAINERS:
                    start(docker, *container)
                working = sum("group" in words for *_, words in CONTAINERS)
                eventually(lambda: sum(map(bool, usages().values())) == working, "they compute")
                time.sleep(MEMORY_AGE_S)
                os.environ["DOCKER_HOST"] = docker.socket
                yield
                docker.clear()
                engine.await_empty()
        finally:
            os.environ.pop("DOCKER_HOST", None)
            if before is not None:
                os.environ["DOCKER_HOST"] = before
            engine.stop()


def tables(target: Path) -> None:
    """Draw what cgpu-smi prints."""
    for width, columns in TABLES.items():
        environment = os.environ | {"COLUMNS": str(columns)}
        done = subprocess.run([SMI], stdout=subprocess.PIPE, text=True, check=True, env=environment)
        for mode, window in WINDOWS.items():
            path = target / f"cgpu-smi{width}{mode}.svg"
            draw(f"{PROMPT}cgpu-smi\n{done.stdout}", "cgpu-smi", path, columns, theme(*window))


async def screens(source: Callable[[], Iterator[Shot]], target: Path) -> None:
    """Draw the screen of cgpu top, once histories are full."""
    app = Top(source, delay=DELAY_S)
    async with app.run_test(size=SCREENS[""]) as pilot:
        while not app.rows or len(app.rows[0].times) < HISTORY:
            await pilot.pause(DELAY_S)
        for width, (columns, lines) in SCREENS.items():
            await pilot.resize_terminal(columns, lines)
            await pilot.pause(DELAY_S)
            for mode, window in WINDOWS.items():
                name = f"cgpu-top{width}{mode}"
                (target / f"{name}.svg").write_text(svg(app, name, theme(*window)))


def svg(app: Top, name: str, colours: TerminalTheme) -> str:
    """Return a screen as SVG."""
    with open(os.devnull, "w") as nowhere:
        console = Console(
            record=True, width=app.size.width, file=nowhere, force_terminal=True, legacy_windows=False
        )
        for strip in app.screen._compositor.render_strips():  # noqa: SLF001 (the app draws in one theme)
            console.print(*(Text(one.text, one.style or "") for one in strip), sep="", end="\n")
        return console.export_svg(title="cgpu top", theme=colours, code_format=FORMAT, unique_id=name)


def theme(background: str, text: str) -> TerminalTheme:
    """Return a terminal's colours."""
    return TerminalTheme(rgb(background), rgb(text), [*map(rgb, PLAIN)], [*map(rgb, BRIGHT)])


def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue."""
    red, green, blue = bytes.fromhex(colour)
    return red, green, blue


def main(target: Path) -> None:
    """Draw all."""
    draw(demo(), "make demo", target / "demo.svg", COLUMNS, theme(*WINDOWS[""]))
    with node():
        tables(target)
    with loaded.node() as daemon:
        asyncio.run(screens(lambda: loaded.source(daemon), target))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
