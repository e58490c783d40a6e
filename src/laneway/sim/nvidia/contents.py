"""What the kernel and NVIDIA's driver accept as the content of a write."""

from __future__ import annotations

import errno
import re

from laneway.sim.tree import os_error

UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID_LENGTH = 36
_PARAMETER = r"[A-Za-z0-9_.]+=[^,=\s]+"
_PARAMETERS = re.compile(rf"(?:{_PARAMETER}(?:,\s*{_PARAMETER})*)?\n?")


def parse_uuid(data: str) -> str:
    """A UUID as the kernel reads it: one more byte may follow, a newline as a rule."""
    uuid = data[:_UUID_LENGTH]
    extra = len(data.encode()) - _UUID_LENGTH
    if extra not in (0, 1) or not UUID.fullmatch(uuid):
        raise os_error(errno.EINVAL)
    return uuid.lower()


def parse_parameters(data: str) -> str:
    """Parameters of a vGPU, `name=value,name=value`; empty for the defaults."""
    if not _PARAMETERS.fullmatch(data):
        raise os_error(errno.EINVAL)
    return data.strip()
