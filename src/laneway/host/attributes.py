"""One device's sysfs directory as values.

One listing tells which attributes exist, so that absent ones cost nothing. What cannot be read or
understood becomes an error on the device and an absent value: odd hardware must never hide the
rest of a node. A device can vanish at any moment; reads that fail for that reason are no errors,
the reader of the device asks `vanished` at the end.
"""

from __future__ import annotations

import errno
import re
from functools import lru_cache

from laneway.core.inventory import DeviceError
from laneway.core.pci import PciAddress
from laneway.host.paths import as_address
from laneway.host.port import Host

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_ID = re.compile(r"[0-9]{1,9}")
_HEX = re.compile(r"(?:0[xX])?([0-9a-fA-F]+)")
_BLANKS = " \t\r\n\0"
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENXIO, errno.ENOTDIR)


def clean(raw: bytes | str) -> str:
    """Text that every encoder accepts, without surrounding blanks."""
    if isinstance(raw, str):
        if raw.isascii():  # nearly always, and then there is nothing to clean but the ends
            return raw.strip(_BLANKS)
        raw = raw.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace").strip(_BLANKS)


def describe(error: OSError) -> str:
    return error.strerror or str(error)


def shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")


class Attributes:
    """The attributes below one directory; owns what went wrong while reading them."""

    def __init__(self, host: Host, path: str, device: str) -> None:
        """List the directory. Raises OSError when that is not possible."""
        self.path = path
        self.names = frozenset(host.names(path))
        self.errors: list[DeviceError] = []
        self._host = host
        self._device = device
        self._missed = False
        self._ahead: dict[str, bytes] = {}
        """What was read to see whether it is there, until it is asked for."""

    def fail(self, what: str) -> None:
        self.errors.append(DeviceError(self._device, what))

    def vanished(self) -> bool:
        """Whether the directory is gone, asked only if something in it could not be read."""
        return (self._missed or bool(self.errors)) and not self._host.exists(self.path)

    def text(self, name: str) -> str:
        """Content of an attribute, empty when it is absent."""
        return self.content(name) or ""

    def content(self, name: str) -> str | None:
        """Content of an attribute, None when it is absent, has gone or cannot be read."""
        if name not in self.names and name.partition("/")[0] not in self.names:
            return None
        try:
            raw = self._ahead.pop(name, None)
            return clean(self._host.read(f"{self.path}/{name}") if raw is None else raw)
        except OSError as error:
            self._unreadable(name, error)
            return None

    def spare(self, name: str) -> str:
        """Content of an attribute whose facts others tell as well: nothing is lost without it."""
        if name not in self.names:
            return ""
        try:
            return clean(self._host.read(f"{self.path}/{name}"))
        except OSError:
            return ""

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        if _NUMBER.fullmatch(text) is None:
            self.fail(f"{name}: not a number: {shorten(text)}")
            return None
        return int(text)

    def count(self, name: str) -> int | None:
        """A number that is not negative."""
        value = self.number(name)
        if value is not None and value < 0:
            self.fail(f"{name}: negative: {value}")
            return None
        return value

    def hex(self, name: str, digits: int) -> str:
        """Lower-case hex of exactly `digits` digits, the kernel's `0x` taken off."""
        text = self.text(name)
        value = hex_id(text, digits)
        if text and not value:
            self.fail(f"{name}: not a hexadecimal id of {digits} digits: {shorten(text)}")
        return value

    def properties(self, name: str = "uevent") -> dict[str, str]:
        lines = self.text(name).splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def link(self, name: str) -> str:
        """Last part of a link's target, empty when there is no such link."""
        if name not in self.names:
            return ""
        try:
            return clean(self._host.readlink(f"{self.path}/{name}").rpartition("/")[2])
        except OSError as error:
            self._unreadable(name, error)
            return ""

    def has(self, name: str) -> bool:
        """Whether there is such an attribute, in a directory below too.

        It is read at once, because its content is what is asked for next.
        """
        if name.partition("/")[0] not in self.names:
            return False
        try:
            self._ahead[name] = self._host.read(f"{self.path}/{name}")
        except OSError as error:
            return error.errno not in _ABSENT
        return True

    def inside(self, name: str) -> list[str]:
        """Sorted names in a directory below."""
        if name not in self.names:
            return []
        try:
            return sorted(self._host.names(f"{self.path}/{name}"))
        except OSError as error:
            self._unreadable(name, error)
            return []

    def below(self, name: str) -> Attributes | None:
        """A device that is a directory below this one, None when it went since."""
        try:
            return Attributes(self._host, f"{self.path}/{name}", name)
        except OSError:
            return None

    def function(self, name: str) -> PciAddress | None:
        """The PCI function that a link points to."""
        target = self.link(name)
        address = as_address(target)
        if target and address is None:
            self.fail(f"{name}: does not lead to a PCI function: {shorten(target)}")
        return address

    def _unreadable(self, name: str, error: OSError) -> None:
        self._missed = True
        if error.errno not in _GONE:
            self.fail(f"{name}: cannot be read: {describe(error)}")


def decimal_id(text: str) -> int | None:
    """A number without sign that fits everywhere (IOMMU group, bus), None for anything else."""
    return int(text) if _ID.fullmatch(text) else None


@lru_cache(maxsize=4096)
def hex_id(text: str, digits: int) -> str:
    """Lower-case hex of `digits` digits, leading zeros added; empty for anything else.

    Remembered, because VFs show the same few ids by the hundred.
    """
    match = _HEX.fullmatch(text)
    value = match[1].lower().zfill(digits) if match else ""
    return value if len(value) == digits else ""


def listing(host: Host, path: str, errors: list[DeviceError]) -> list[str]:
    """Sorted names in a directory; none when it does not exist, an error when it is unreadable."""
    try:
        return sorted(host.names(path))
    except OSError as error:
        if error.errno not in _GONE:
            errors.append(DeviceError(path, f"cannot be listed: {describe(error)}"))
        return []
