"""What the cluster autoscaler reads of a set without machines, to make its first one.

The autoscaler of Cluster API takes these annotations of a MachineDeployment or MachineSet, and
before them `status.capacity` of the template. CAPK writes CPU and memory there, from the release
after 0.11 on, and never GPUs; it overwrites what others write there. So it is annotations.

A value that a person wrote stays. An annotation of Laneway's own records what Laneway has written:
a value that differs from the record is a person's.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.core.keys import ANNOTATION_CAPACITY

_PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"
CPU = f"{_PREFIX}cpu"
MEMORY = f"{_PREFIX}memory"
GPU_TYPE = f"{_PREFIX}gpu-type"
GPU_COUNT = f"{_PREFIX}gpu-count"
KEYS = (CPU, MEMORY, GPU_TYPE, GPU_COUNT)

_note = msgspec.json.Decoder(dict[str, str]).decode


def changed(there: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """What to write of annotations so that they say what is wanted; None takes one away."""
    noted = _noted(there)
    own: dict[str, str] = {}
    changes: dict[str, str | None] = {}
    for key in KEYS:
        now, want = there.get(key), wanted.get(key)
        if now is not None and now != noted.get(key):
            continue
        if want is not None:
            own[key] = want
        if now != want:
            changes[key] = want
    note = msgspec.json.encode(own).decode() if own else None
    if there.get(ANNOTATION_CAPACITY) != note:
        changes[ANNOTATION_CAPACITY] = note
    return changes


def _noted(there: Mapping[str, str]) -> Mapping[str, str]:
    try:
        return _note(there.get(ANNOTATION_CAPACITY, "{}"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}  # It was spoilt by hand: nothing is known to be Laneway's.
