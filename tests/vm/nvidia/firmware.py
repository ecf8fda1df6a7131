# SPDX-License-Identifier: Apache-2.0
"""A firmware file for the driver's loader, with nothing to run in it.

The driver asks the kernel for its GSP's firmware before it starts a card, and wants an ELF file with an
image, a signature, and its own version (GSP_*_SECTION_NAME, kernel_gsp.h). A fake GSP runs none of it.
"""

from __future__ import annotations

import struct

PAGE = 4096
ELF_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
IDENT = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
EM_RISCV = 243
SHT_PROGBITS, SHT_STRTAB = 1, 3


def image(version: str) -> bytes:
    contents = {
        ".fwimage": bytes(16 * PAGE),
        ".fwversion": version.encode() + b"\0",
        ".fwsignature_tu10x": bytes(PAGE),
        # A note by GNU of type NT_GNU_BUILD_ID, with 20 bytes. Later drivers want it; earlier ones ignore it.
        ".note.gnu.build-id": struct.pack("<III4s20x", 4, 20, 3, b"GNU"),
    }
    names, data, headers = b"\0", b"", [SECTION.pack(*[0] * 10)]
    for name, content in contents.items():
        at = ELF_HEADER.size + len(data)
        headers.append(SECTION.pack(len(names), SHT_PROGBITS, 0, 0, at, len(content), 0, 0, 1, 0))
        names += name.encode() + b"\0"
        data += content
    own = len(names)
    names += b".shstrtab\0"
    headers.append(SECTION.pack(own, SHT_STRTAB, 0, 0, ELF_HEADER.size + len(data), len(names), 0, 0, 1, 0))
    data += names
    data += bytes(-len(data) % 8)
    header = ELF_HEADER.pack(
        IDENT, 2, EM_RISCV, 1, 0, 0, ELF_HEADER.size + len(data), 0, ELF_HEADER.size, 0, 0,
        SECTION.size, len(headers), len(headers) - 1,
    )  # fmt: skip
    return header + data + b"".join(headers)
