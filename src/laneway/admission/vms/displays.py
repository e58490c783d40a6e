"""Which vGPU of a VM has the display.

At most one display of a VM can have ramFB, the framebuffer until the guest has its driver.
KubeVirt gives it to the first mediated device by itself, but only while no entry of `gpus` says
anything about a display; some releases then turn it on for each entry that says nothing. So all
mediated devices say it: where the user has given a display with ramFB to one, the others have none.
Where he has only switched things off, the first that he left alone has it.

An entry of a PCI function has a display only if it says so, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.admission.vms.gpus import frameworks
from laneway.admission.world import MEDIATED, World
from laneway.core.raw import Json, JsonObject, at, members

_PRIMARY: JsonObject = {"enabled": True, "ramFB": {"enabled": True}}
_NONE: JsonObject = {"enabled": False}


def with_displays(entries: Sequence[Json], world: World) -> list[Json]:
    """The entries of `gpus`, each mediated device saying whether it has the display."""
    reported = list(entries)
    mediated = [place for place, one in enumerate(reported) if frameworks(one, world) == {MEDIATED}]
    if len(mediated) < 2 and not any(_display(one) is not None for one in reported):
        return reported
    shown = any(has_ramfb(_display(one)) for one in reported)
    for place in mediated:
        if _display(reported[place]) is not None:
            continue
        entry = members(reported[place])
        said = members(entry.get("virtualGPUOptions"))
        display = _NONE if shown else _PRIMARY
        reported[place] = {**entry, "virtualGPUOptions": {**said, "display": display}}
        shown = True
    return reported


def has_ramfb(display: JsonObject | None) -> bool:
    """Whether KubeVirt counts it as a display with ramFB: what is not said is on."""
    if display is None or display.get("enabled") is False:
        return False
    ramfb = display.get("ramFB")
    return not isinstance(ramfb, Mapping) or ramfb.get("enabled") is not False


def _display(entry: Json) -> JsonObject | None:
    display = at(entry, ("virtualGPUOptions", "display"))
    return display if isinstance(display, Mapping) else None
