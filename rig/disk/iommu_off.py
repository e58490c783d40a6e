#!/usr/bin/env python3
"""Make a kernel whose IOMMU is off unless its command line says otherwise.

    iommu_off.py BZIMAGE VMLINUX ADDRESS OUTPUT

Debian builds its kernels such that they use an Intel IOMMU unasked; RHEL, SUSE and
Harvester do not (INTEL_IOMMU_DEFAULT_OFF). That is one word of the kernel's memory,
`dmar_disabled`, which is 0 at the start here and 1 there. It lies where an image has
no content, so this writes a 1 into padding that it has, and has all code that reads
or writes the one word use the other. Nothing else changes.

VMLINUX is the plain image of BZIMAGE, ADDRESS the word's, as /proc/kallsyms has it.
"""

import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
import extract_vmlinux

# Instructions with a RIP-relative operand: opcode, ModRM of that form, displacement. The
# displacement counts from the end of the instruction, behind a constant that may follow it.
CONSTANT = {0x83: 1, 0x80: 1, 0xC6: 1, 0xC7: 4, 0x81: 4}
PLAIN = {0x8B, 0x89, 0x0B, 0x09, 0x39, 0x3B, 0x85, 0x23, 0x21}


class Segment(NamedTuple):
    offset: int
    address: int
    size: int
    flags: int


def segments(image: bytes) -> list[Segment]:
    (table,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<HH", image, 54)
    found = []
    for number in range(count):
        kind, flags, offset, address, _, length, _, _ = struct.unpack_from(
            "<IIQQQQQQ", image, table + size * number
        )
        if kind == 1 and address:
            found.append(Segment(offset, address, length, flags))
    return found


def uses(image: bytes, segment: Segment, word: int) -> Iterator[int]:
    """Where in the image the displacement of an instruction is that uses the word."""
    code = image[segment.offset : segment.offset + segment.size]
    # the ModRM byte of a RIP-relative operand is one of eight
    for found in re.finditer(rb"(?=[\x05\x0d\x15\x1d\x25\x2d\x35\x3d])", code):
        at = found.start() + 1
        opcode = code[at - 2]
        if at + 4 > len(code) or (opcode not in PLAIN and opcode not in CONSTANT):
            continue
        (displacement,) = struct.unpack_from("<i", code, at)
        end = at + 4 + CONSTANT.get(opcode, 0)
        if segment.address + end + displacement == word:
            yield segment.offset + at


def main() -> None:
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    boot = bytearray(Path(sys.argv[1]).read_bytes())
    image = bytearray(Path(sys.argv[2]).read_bytes())
    word = int(sys.argv[3], 16)

    found = segments(image)
    data = next(one for one in found if one.flags == 6)
    end = data.offset + data.size
    if any(image[end - 64 : end]):
        raise SystemExit("iommu_off: no padding at the end of the kernel's data")
    other = data.address + data.size - 8
    image[end - 8] = 1
    places = [place for one in found if one.flags & 1 for place in uses(image, one, word)]
    if not 8 <= len(places) <= 20:
        raise SystemExit(f"iommu_off: {len(places)} uses of dmar_disabled are not what is known")
    for place in places:
        (displacement,) = struct.unpack_from("<i", image, place)
        struct.pack_into("<i", image, place, displacement + other - word)

    # Room for what has become less compressible: names of sections, which only tools read.
    (sections,) = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    image[sections : sections + size * count] = bytes(size * count)

    start, length = extract_vmlinux.payload_place(boot)
    if not boot[start : start + length].startswith(b"\x28\xb5\x2f\xfd"):
        raise SystemExit("iommu_off: this kernel is not compressed by zstd")
    packed = subprocess.run(
        ["zstd", "--ultra", "-22", "-qc"], input=image, stdout=subprocess.PIPE, check=True
    ).stdout
    size = length - 4  # the last word is the length of the plain image
    if len(packed) > size:
        raise SystemExit(f"iommu_off: the image has become {len(packed) - size} bytes too long")
    boot[start : start + size] = packed.ljust(size, b"\0")
    Path(sys.argv[4]).write_bytes(boot)


if __name__ == "__main__":
    main()
