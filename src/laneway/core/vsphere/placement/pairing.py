"""Assigns devices to requests one to one, as many as possible, each its best fit where possible.

A request that is served stays served when others are added: it may get another device in exchange
for its own, never none. So the first request is served first, and the number that is served is the
largest possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_NOTHING: Mapping[int, int] = {}


def assign(fits: Mapping[int, Sequence[int]], held: Mapping[int, int] = _NOTHING) -> dict[int, int]:
    """The device of every request that can be served.

    `fits`: the devices that fit each, the best first. `held`: the result of an earlier call, whose
    requests are among these.
    """
    owner = {device: request for request, device in held.items()}
    for request, devices in fits.items():
        if request in held:
            continue
        free = next((device for device in devices if device not in owner), None)
        if free is not None:
            owner[free] = request
        else:
            _exchange(request, fits, owner, set())
    return {request: device for device, request in owner.items()}


def _exchange(
    request: int, fits: Mapping[int, Sequence[int]], owner: dict[int, int], seen: set[int]
) -> bool:
    """Serve a request by giving those that have its devices others."""
    for device in fits[request]:
        if device not in seen:
            seen.add(device)
            if device not in owner or _exchange(owner[device], fits, owner, seen):
                owner[device] = request
                return True
    return False
