"""Values as the kernel reads them from what is written to an attribute."""

from __future__ import annotations

import errno
import re

from laneway.sim.tree import os_error

_INTEGER = re.compile(r"\+?(0[xX][0-9a-fA-F]{1,64}|[0-9]{1,64})\n?")


def parse_unsigned(data: str, bits: int = 32) -> int:
    """An unsigned number: decimal, octal or hexadecimal by its prefix (kstrtouint)."""
    match = _INTEGER.fullmatch(data)
    if match is None:
        raise os_error(errno.EINVAL)
    digits = match[1]
    octal = digits[0] == "0" and digits.isdecimal()
    if octal and not set(digits) <= set("01234567"):
        raise os_error(errno.EINVAL)
    number = int(digits, 8 if octal else 0)
    if number >= 1 << bits:
        raise os_error(errno.ERANGE)
    return number


def parse_bool(data: str) -> bool:
    """A truth value (kstrtobool): what counts are the first letters."""
    lowered = data.lower()
    if lowered[:1] in ("y", "t", "1") or lowered[:2] == "on":
        return True
    if lowered[:1] in ("n", "f", "0") or lowered[:2] == "of":
        return False
    raise os_error(errno.EINVAL)


def parse_name(data: str) -> str:
    """A device's or driver's name, with or without a line feed (sysfs_streq)."""
    return data.removesuffix("\n")
