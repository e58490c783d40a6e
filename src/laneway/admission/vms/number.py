"""How many devices something requests: looked at before anything else is done about it.

What is judged of devices takes a time that grows with their number, and a user who may write
virtual VMs may request as many as fit into an object. Entries are counted without being read.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laneway.core.refusals import Refusal, TooManyDevices

LIMIT = 64
"""Entries of `hostDevices` and `gpus` together; no server has as many devices to give away."""


class _Part(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A part of an object, as far as it leads to devices."""


class _Devices(_Part, frozen=True):
    host_devices: Sequence[msgspec.Raw] | None = None
    gpus: Sequence[msgspec.Raw] | None = None


class _Domain(_Part, frozen=True):
    devices: _Devices | None = None


class _Spec(_Part, frozen=True):
    """Of an instance, of what has a template of one, or of a pool."""

    domain: _Domain | None = None
    template: _Template | None = None
    instancetype: msgspec.Raw | None = None
    """Which may have devices."""
    virtual_machine_template: _Template | None = None


class _Template(_Part, frozen=True):
    spec: _Spec | None = None


class _Metadata(_Part, frozen=True):
    deletion_timestamp: str | None = None


class _Object(_Part, frozen=True):
    metadata: _Metadata | None = None
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_object = msgspec.json.Decoder(_Object).decode
_spec = msgspec.json.Decoder(_Spec | None).decode


def refused(new: msgspec.Raw | None, old: msgspec.Raw | None) -> Refusal | None:
    """Why an object requests too many devices, unless it requested the same before.

    What cannot be read is not judged here.
    """
    try:
        after = _object(new) if new is not None else None
        if after is None or (after.metadata and after.metadata.deletion_timestamp):
            return None
        count = _count(_spec(after.spec))
        if count <= LIMIT or (old is not None and bytes(_object(old).spec) == bytes(after.spec)):
            return None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return TooManyDevices(count, LIMIT)


def requests_more(new: msgspec.Raw, old: msgspec.Raw | None) -> bool:
    """Whether a write requests devices, or seems to, in another specification than before."""
    try:
        after = _object(new)
        if old is not None and bytes(_object(old).spec) == bytes(after.spec):
            return False
        return _asks(_spec(after.spec))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True


def _asks(spec: _Spec | None) -> bool:
    if spec is None:
        return False
    inner = (spec.template, spec.virtual_machine_template)
    return bool(_count(spec) or spec.instancetype) or any(_asks(one.spec) for one in inner if one)


def _count(spec: _Spec | None) -> int:
    if spec is None:
        return 0
    devices = spec.domain.devices if spec.domain else None
    count = len(devices.host_devices or ()) + len(devices.gpus or ()) if devices else 0
    inner = (spec.template, spec.virtual_machine_template)
    return count + sum(_count(one.spec) for one in inner if one)
