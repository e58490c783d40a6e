"""Names for devices that a machine driver calls all alike.

Rancher's form names every device `provisioned`, other clients leave the name empty, and Harvester's
driver takes either into the VM. KubeVirt makes aliases of the names, and libvirt starts no domain
in which one comes twice. These names mean nothing, so the second gets another. Any other name that
comes twice is a mistake, which validation refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from laneway.core.raw import Json

_PLACEHOLDERS = frozenset({"provisioned", ""})
_BASE = "device"
"""How the other name begins where there was none."""


def told_apart(entries: Sequence[Json], others: Iterable[Json] = ()) -> list[Json]:
    """The entries of a list; no placeholder is twice in it, or in the `others`."""
    before = [*map(_name, others)]
    names = {*before, *map(_name, entries)}
    seen = {*before}
    found: list[Json] = []
    for entry in entries:
        name = _name(entry)
        if isinstance(entry, Mapping) and name in _PLACEHOLDERS and name in seen:
            tried = (f"{name or _BASE}-{number}" for number in count(2))
            name = next(one for one in tried if one not in names)
            names.add(name)
            found.append({**entry, "name": name})
        else:
            found.append(entry)
        seen.add(name)
    return found


def _name(entry: Json) -> str | None:
    """None for what is no request of a device by its resource."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("deviceName"), str):
        return None
    name = entry.get("name", "")
    return name if isinstance(name, str) else None
