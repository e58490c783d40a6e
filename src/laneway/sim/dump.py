"""The text format in which umockdev records a machine's devices.

One block per device, separated by empty lines; the first character of a line says what it holds:

    P: path below /sys              E: uevent property, KEY=value
    A: attribute, with C escapes    H: attribute in hexadecimal
    L: symbolic link                N: device node, optionally =content in hexadecimal
    S: link to the device node

`render` writes what `parse` reads, and what umockdev itself reads. A dump may come from anybody,
so nothing in it is trusted: whatever is not in this form ends in a DumpError of one line that names
the place, every path stays below /sys/devices and the size is bounded before anything is unpacked.
"""

from __future__ import annotations

import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Collection, Iterable
from typing import BinaryIO, cast

import msgspec

MAX_BYTES = 64 << 20
MAX_DEVICES = 50_000
_MAX_PATH = 4096
_GZIP, _XZ = _COMPRESSED = (b"\x1f\x8b", b"\xfd7zXZ\0")

_UNSAFE = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f]")
_UNSAFE_TARGET = re.compile(r"[\x00-\x1f\x7f]")
_ESCAPED = re.compile(rb"\\([0-7]{1,3}|.|$)", re.DOTALL)
_TO_ESCAPE = re.compile(rb"[^ !#-\[\]-~]")
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_SHORT = {value: b"\\" + letter for letter, value in _LETTERS.items()} | {
    b"\\": b"\\\\",
    b'"': b'\\"',
}


class DumpError(ValueError):
    """The dump cannot be used; the text says where, why, and what to do."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """One device."""

    path: str
    """Below /sys: `/devices/pci0000:00/0000:00:03.0`."""
    properties: dict[str, str] = {}
    attributes: dict[str, bytes] = {}
    """By name relative to the device, which may lead into sub-directories."""
    links: dict[str, str] = {}
    node: str = ""
    """Device node below /dev; empty for devices without one."""
    node_content: bytes = b""
    node_links: tuple[str, ...] = ()


def read(path: str) -> list[Block]:
    """Read a dump from a file: plain, or compressed by gzip or xz."""
    try:
        with open(path, "rb") as file:
            return _blocks(file, path)
    except OSError as error:
        raise DumpError(_unreadable(path, error)) from None


def blocks_of(content: bytes, source: str) -> list[Block]:
    """The same from the content of a file; `source` names it in errors."""
    return _blocks(io.BytesIO(content), source)


def is_dump(content: bytes) -> bool:
    """Whether a file's content begins as a dump does; compressed files are taken for dumps."""
    return content.startswith(_COMPRESSED) or content.lstrip(b"\n").startswith(b"P: ")


def _blocks(file: BinaryIO, source: str) -> list[Block]:
    name = os.path.basename(source)
    try:
        with _unpacked(file) as plain:
            raw = plain.read(MAX_BYTES + 1)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DumpError(_unreadable(source, error)) from None
    if len(raw) > MAX_BYTES:
        raise DumpError(
            f"{name}: larger than {MAX_BYTES >> 20} MiB; "
            "record only the devices that matter (umockdev-record DEVICE...)"
        )
    return parse(raw.decode("utf-8", "surrogateescape"), name)


def _unreadable(source: str, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or error
    return f"cannot read the dump {source}: {reason}; check the file"


def _unpacked(file: BinaryIO) -> BinaryIO:
    magic = file.read(len(_XZ))
    file.seek(0)
    if magic.startswith(_GZIP):
        return cast("BinaryIO", gzip.open(file, "rb"))
    if magic == _XZ:
        return cast("BinaryIO", lzma.open(file, "rb"))
    return file


def parse(text: str, source: str = "dump") -> list[Block]:
    """Read the text of a dump; `source` names it in errors."""
    lines = text.split("\n")
    if lines.pop() != "":
        raise DumpError(
            f"{source} line {len(lines) + 1}: the file ends in the middle of a line, "
            "so it was cut off; copy or record it again"
        )
    blocks: dict[str, Block] = {}
    block: Block | None = None
    for number, line in enumerate(lines, 1):
        try:
            if not line:
                block = None
            elif block is not None:
                block = blocks[block.path] = _add(block, line)
            else:
                block = _start(line, blocks)
                blocks[block.path] = block
        except _Flaw as flaw:
            raise DumpError(f"{source} line {number}: {flaw}") from None
    if not blocks:
        raise DumpError(f"{source}: no devices in it; record it with umockdev-record --all")
    return list(blocks.values())


class _Flaw(Exception):  # noqa: N818 - what is wrong with one line, without its place
    pass


def _start(line: str, known: Collection[str]) -> Block:
    if not line.startswith("P: "):
        raise _Flaw(
            f"expected 'P: /devices/...' to begin a device, found {line[:40]!r}; "
            "is this a dump by umockdev-record or laneway capture?"
        )
    path = line[3:]
    if not path.startswith("/devices/"):
        raise _Flaw(f"device path {path[:80]!r} is not below /devices/; record the dump again")
    _check_path(path[1:])
    if len(known) == MAX_DEVICES:
        raise _Flaw(f"more than {MAX_DEVICES} devices; record fewer of them")
    if path in known:
        raise _Flaw(f"{path} was already described; delete one of the two blocks")
    return Block(path=path)


def _add(block: Block, line: str) -> Block:
    """The block with one more line. Its dicts are only ours until it is returned, so they grow."""
    kind, value = line[:3], line[3:]
    if kind == "N: ":
        node, equals, content = value.partition("=")
        _check_path(node)
        return msgspec.structs.replace(
            block, node=node, node_content=_from_hex(content) if equals else b""
        )
    if kind == "S: ":
        _check_path(value)
        return msgspec.structs.replace(block, node_links=(*block.node_links, value))
    name, equals, value = value.partition("=")
    if kind not in ("E: ", "A: ", "H: ", "L: "):
        raise _Flaw(f"unknown kind of line {line[:40]!r}; record the dump again")
    if not equals:
        raise _Flaw(f"{line[:40]!r} has no '='; the line was cut off, record the dump again")
    if kind == "E: ":
        if not name or _UNSAFE_TARGET.search(name):
            raise _Flaw(f"{name[:40]!r} is no property name; record the dump again")
        block.properties[name] = value
        return block
    _check_path(name)
    if kind == "A: ":
        block.attributes[name] = _unescape(value)
    elif kind == "H: ":
        block.attributes[name] = _from_hex(value)
    else:
        if not value or len(value) > _MAX_PATH or _UNSAFE_TARGET.search(value):
            raise _Flaw(f"link target {value[:80]!r} is no path; record the dump again")
        block.links[name] = value
    return block


def _check_path(path: str) -> None:
    if len(path) > _MAX_PATH or _UNSAFE.search(path):
        raise _Flaw(
            f"path {path[:80]!r} has an empty, '.' or '..' part, a control character, or is too "
            "long; the dump is damaged or was made to do harm"
        )


def _from_hex(value: str) -> bytes:
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise _Flaw("the hexadecimal value is damaged; record the dump again") from None


def _unescape(value: str) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        code: bytes = match[1]
        if not code:
            raise _Flaw("the value ends in a lone backslash; record the dump again")
        if code[:1].isdigit() and code[:1] < b"8":
            return bytes([int(code, 8) & 0xFF])
        return _LETTERS.get(code, code)

    raw = value.encode("utf-8", "surrogateescape")
    return _ESCAPED.sub(one, raw) if b"\\" in raw else raw


def render(blocks: Iterable[Block]) -> str:
    """The text of a dump. Raises ValueError for a name that the format cannot hold."""
    return "".join(_render(block) for block in blocks)


def _render(block: Block) -> str:
    lines = [f"P: {block.path}"]
    if block.node:
        content = f"={block.node_content.hex().upper()}" if block.node_content else ""
        lines.append(f"N: {block.node}{content}")
    lines += [f"S: {link}" for link in block.node_links]
    lines += [f"E: {key}={value}" for key, value in sorted(block.properties.items())]
    values = [(name, _attribute(name, value)) for name, value in block.attributes.items()]
    values += [(name, f"L: {name}={target}") for name, target in block.links.items()]
    lines += [line for _, line in sorted(values)]
    for line in lines:
        if "\n" in line or "\0" in line:
            raise ValueError(f"a dump cannot hold a line feed or NUL in {line[:80]!r}")
    for name in (*block.properties, *block.attributes, *block.links, block.node):
        if "=" in name:
            raise ValueError(f"a dump cannot hold a name with '=': {name!r}")
    return "\n".join(lines) + "\n\n"


def _attribute(name: str, value: bytes) -> str:
    if b"\0" in value or not _is_text(value):
        return f"H: {name}={value.hex().upper()}"
    escaped = _TO_ESCAPE.sub(lambda m: _SHORT.get(m[0]) or b"\\%03o" % m[0][0], value)
    return f"A: {name}={escaped.decode('ascii')}"


def _is_text(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
