"""Which writes must not pass where Laneway cannot judge them.

A kind of another product must not depend on what Laneway makes of it, but a device must not
be given away because a rule failed. So it is looked, with as little reading as can be, whether a
write requests devices again, or changes what Laneway alone notes. Of pods the second is enough: one
that was not judged gets nothing that is claimed (`core.device_plugin.entitled`).
"""

from __future__ import annotations

import msgspec

from laneway.admission.vms import number
from laneway.core import keys
from laneway.core.raw import Json, at
from laneway.kube.kubevirt import ANNOTATION_ADMITTED

_NOTES = (keys.ANNOTATION_REQUESTERS, ANNOTATION_ADMITTED)


def is_guarded(new: msgspec.Raw | None, old: msgspec.Raw | None, *, devices: bool) -> bool:
    """Whether a write must have been judged; `devices`: also one that requests devices."""
    if new is None:
        return False
    try:
        if _notes(new) != _notes(old):
            return True
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return devices
    return devices and number.requests_more(new, old)


def _notes(raw: msgspec.Raw | None) -> list[Json]:
    whole = None if raw is None else msgspec.json.decode(raw)
    return [at(whole, ("metadata", "annotations", key)) for key in _NOTES]
