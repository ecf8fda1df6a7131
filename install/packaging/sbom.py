# SPDX-License-Identifier: Apache-2.0
"""Print a software bill of materials in CycloneDX: what others made of a bundle, a package or an image.

usage: python -m cgpu.install.packaging.sbom NAME LOCK [BUNDLE [STATUS]]

Python packages are those of the lock file, with the hashes that they are taken by; Debian's are named by the
bundle (share/doc/NAME/version), and by STATUS, in which an image's dpkg has them. SOURCE_DATE_EPOCH is the
time of the bill.
"""

from __future__ import annotations

import os
import re
import sys
import tarfile
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from cgpu import __version__

LOCKED = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)
INSTALLED = re.compile(r"^Package: (.+)\n(?:.+\n)*?Version: (.+)$", re.MULTILINE)
DEBIAN = re.compile(r"opencgpu/[^/]+/share/doc/([^/]+)/version")
HASH = HashAlgorithm.SHA_256


def main(name: str, lock: str, bundle: str | None = None, status: str | None = None) -> None:
    """Print the bill of what has a name."""
    debian = dict.fromkeys(debian_packages(Path(bundle)) if bundle else ())
    debian |= dict.fromkeys(INSTALLED.findall(Path(status).read_text()) if status else ())
    purls = [(*one, PackageURL("deb", "debian", *one)) for one in debian]
    parts = [*python_packages(Path(lock).read_text()), *(make_component(*one) for one in purls)]
    subject = make_component(name, __version__, PackageURL("generic", None, name, __version__))
    time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    bom = Bom(
        components=parts,
        metadata=BomMetaData(component=subject, timestamp=time),
        # The library chooses one by chance, and the same release would have another one each time.
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(sorted(str(part.purl) for part in parts))),
    )
    bom.register_dependency(subject, parts)
    print(JsonV1Dot6(bom).output_as_string(indent=1))


def python_packages(lock: str) -> Iterator[Component]:
    for name, version, hashes in LOCKED.findall(lock):
        found = [HashType(alg=HASH, content=one) for one in re.findall(r"sha256:(\w+)", hashes)]
        purl = PackageURL("pypi", None, name.lower().replace("_", "-"), version)
        yield make_component(name, version, purl, found)


def debian_packages(bundle: Path) -> Iterator[tuple[str, str]]:
    """Yield name and version of each Debian package that the bundle has files of."""
    with tarfile.open(bundle) as archive:
        for member in archive:
            found = DEBIAN.fullmatch(member.name)
            stream = archive.extractfile(member) if found else None
            if found and stream:
                yield found[1], stream.read().decode().strip()


def make_component(
    name: str, version: str, purl: PackageURL, hashes: list[HashType] | None = None
) -> Component:
    kind = ComponentType.LIBRARY
    return Component(type=kind, name=name, version=version, purl=purl, bom_ref=str(purl), hashes=hashes or ())


if __name__ == "__main__":
    main(*sys.argv[1:])
