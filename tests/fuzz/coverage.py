# SPDX-License-Identifier: Apache-2.0
"""Which lines of the core and of parsers the fuzzers' inputs reach, and which the C tests reach besides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.core.build import BENCH_SOURCES, KMOD, PROGRAMS, flags, generated, run, sources, tool
from tests.fuzz.build import COUNT, PARSERS, TARGETS, build_core, build_target
from tests.fuzz.corpus import ARCHIVE, target_name, unpack
from tests.integration.commands import must

LEAST = 95.0
# Folders of the core that judge calls and keep the accounts.
ACCOUNTS = ("addresses/", "call/", "ledger/", "state/")
PARSER = "parser "  # before the names of files that are not the core's
Lines = Mapping[str, tuple[int, int]]  # file: lines that were reached, and all


def fuzz_programs(output: Path) -> list[Path]:
    """Build the fuzz targets with counters."""
    core = build_core(output, COUNT)
    return [build_target(target, core, output, COUNT) for target in TARGETS]


def test_programs(output: Path) -> list[Path]:
    """Build the C tests of the core with counters."""
    gen = generated(output / "gen")
    shared = [*sources(gen), *map(str, BENCH_SOURCES)]
    (output / "objects").mkdir()
    command = [tool("clang"), *flags(gen), *COUNT, "-c", *shared]
    run(command, output / "objects")
    objects = sorted(map(str, (output / "objects").glob("*.o")))
    programs = []
    for source in PROGRAMS:
        programs.append(output / source.stem)
        run([tool("clang"), *flags(gen), *COUNT, str(source), *objects, "-o", str(programs[-1])])
    return programs


def counted(profiles: Path, command: list[str]) -> None:
    """Run a program that leaves its counters in a folder; its findings do not count here."""
    environment = os.environ | {"LLVM_PROFILE_FILE": f"{profiles}/%m.profraw"}
    subprocess.run(command, env=environment, capture_output=True, check=False, timeout=600)


def run_corpus(programs: Iterable[Path], corpus: Path, profiles: Path) -> None:
    for program in programs:
        inputs = corpus / target_name(program.stem)
        counted(profiles, [str(program), "-runs=0", *([str(inputs)] if inputs.is_dir() else [])])


def run_tests(programs: Iterable[Path], profiles: Path) -> None:
    for program in programs:
        for name in must([program, "--list"]).stdout.split():
            counted(profiles, [str(program), name])


def lines(profiles: Path, programs: list[Path]) -> Lines:
    """Return what was reached of each file of the core, and of each parser."""
    merged = profiles / "all.profdata"
    raw = [str(path) for path in sorted(profiles.glob("*.profraw"))]
    run([tool("llvm-profdata"), "merge", *raw, "-o", str(merged)])
    objects = [word for program in programs[1:] for word in ("-object", str(program))]
    export = [tool("llvm-cov"), "export", "-summary-only", f"-instr-profile={merged}"]
    done = must([*export, programs[0], *objects], timeout=280)
    found = {}
    for entry in json.loads(done.stdout)["data"][0]["files"]:
        path, figures = Path(entry["filename"]), entry["summary"]["lines"]
        if path.suffix == ".c" and path.parent.parent == KMOD / "core":
            found[f"{path.parent.name}/{path.name}"] = (figures["covered"], figures["count"])
        elif path.suffix == ".c" and path.parent in PARSERS:
            found[f"{PARSER}{path.name}"] = (figures["covered"], figures["count"])
    return found


def percent(found: Lines, files: Iterable[str]) -> float:
    """Return the share of lines that were reached."""
    chosen = [found[name] for name in files]
    return 100.0 * sum(reached for reached, _ in chosen) / sum(count for _, count in chosen)


def show(fuzzed: Lines, everything: Lines) -> bool:
    """Print a table; False where too little is reached."""
    print(f"{'file':22} {'lines':>6} {'fuzzers':>8} {'+ tests':>8}")
    for name in sorted(everything):
        row = (percent(fuzzed, [name]), percent(everything, [name]))
        print(f"{name:22} {everything[name][1]:6} {row[0]:7.1f}% {row[1]:7.1f}%")
    accounts = [name for name in everything if name.startswith(ACCOUNTS)]
    parsers = [name for name in everything if name.startswith(PARSER)]
    core = everything.keys() - parsers
    wanted = {
        "calls and accounts, by the fuzzers alone": percent(fuzzed, accounts),
        "parsers, by the fuzzers alone": percent(fuzzed, parsers),
        "the core": percent(everything, core),
    }
    for what, figure in {**wanted, "the core, by the fuzzers alone": percent(fuzzed, core)}.items():
        print(f"{what}: {figure:.1f} %")
    return min(wanted.values()) >= LEAST


def main(archive: Path) -> int:
    """Measure, print, and return the exit status."""
    with tempfile.TemporaryDirectory(prefix="core-coverage-") as folder:
        base = Path(folder)
        for name in ("fuzz", "tests", "fuzzed", "everything"):
            (base / name).mkdir()
        fuzzers, tests = fuzz_programs(base / "fuzz"), test_programs(base / "tests")
        run_corpus(fuzzers, unpack(base / "corpus", archive), base / "fuzzed")
        run_tests(tests, base / "everything")
        for profile in (base / "fuzzed").glob("*.profraw"):
            (base / "everything" / f"fuzz-{profile.name}").write_bytes(profile.read_bytes())
        fuzzed = lines(base / "fuzzed", fuzzers)
        everything = lines(base / "everything", [*tests, *fuzzers])
        if show(fuzzed, everything):
            return 0
    print(f"core-coverage: less than {LEAST:.0f} % of the lines are reached", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ARCHIVE))
