"""What `laneway explain` says about an object of the API: JSON in, a page out.

It works on the plain JSON and not on the typed objects, so that fields which others added or
misspelt are shown and not silently left out: people read this when something is odd.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.api import DecodeError, decode
from laneway.core.names import vgpu_resource_name
from laneway.core.passthrough.usability import Reason, ReasonKind, remedy
from laneway.core.workload import Workload
from laneway.views.explain import gpu as explain_gpu
from laneway.views.gpus import Gpu, not_listed
from laneway.views.order import natural
from laneway.views.page import Fact, Page, Section, fact

Json = Mapping[str, Any]

_QUESTION = "Can it be given to a VM?"


class Found(NamedTuple):
    """An object, and what helps to understand it."""

    obj: Json
    events: list[Json]
    gpu: Gpu | None = None
    """The GPU that it is, belongs to or divides."""
    claim: Json | None = None
    """Of a PCIDevice or USBDevice: its claim, if there is one."""
    unreadable: tuple[str, ...] = ()
    """Resources that the person may not read: what they say about it is missing."""


def explain_object(found: Found) -> Page:
    """One object: its desired and observed state, where they differ, and what it is good for."""
    obj, gpu = found.obj, found.gpu
    page = _object(found)
    kind = _text(obj.get("kind"))
    if kind in _CLAIMED:
        return Page(page.title, (Section("In short", tuple(_brief(found))), *page.sections))
    if (known := explain_gpu.KINDS.get(kind)) is None:
        return page
    try:
        return explain_gpu.with_answer(page, decode(known, obj), gpu)
    except DecodeError as error:
        return Page(page.title, (Section("Not readable", lines=(str(error),)), *page.sections))


_CLAIMED = ("PCIDevice", "USBDevice", "PCIDeviceClaim", "USBDeviceClaim")
"""Kinds of devices that users claim, and of the claims."""
_CLAIMS = {"pcideviceclaims", "usbdeviceclaims"}


def _brief(found: Found) -> Iterator[Fact]:
    status = _map(found.obj.get("status"))
    claim = found.obj if _text(found.obj.get("kind")).endswith("Claim") else found.claim or {}
    spec = _map(claim.get("spec"))
    yield fact("is", _text(status.get("description")))
    claimed = "" if not claim else _text(spec.get("userName")) or "an unnamed user"
    # Of a device, only its claim tells both.
    none = "not known" if set(found.unreadable) & _CLAIMS else "none"
    yield fact("claimed by", claimed or none)
    yield fact("held by", _holder(claim) or none)
    yield fact("VMs request", _text(status.get("resourceName")))


def _holder(obj: Json) -> str:
    """The holder of the device of an object, by its status."""
    allocation = _map(_map(obj.get("status")).get("allocation"))
    return str(
        Workload(*(_text(allocation.get(key)) for key in ("namespace", "pod", "virtualMachine")))
    )


def _object(found: Found) -> Page:
    """What every kind has."""
    obj, events = found.obj, found.events
    metadata, spec, status = (_map(obj.get(key)) for key in ("metadata", "spec", "status"))
    kind = _text(obj.get("kind"))
    found_conditions = [_map(one) for one in _list(status.get("conditions"))]
    observed = {k: v for k, v in status.items() if k not in ("conditions", "observedGeneration")}
    held = _holder(obj) or _holder(found.claim or {})
    answer = [f"No: {held} has it."] if held else list(_answer(found, kind, found_conditions))
    return Page(
        f"{kind} {_text(metadata.get('name'))}",
        (
            Section("Object", _metadata(metadata)),
            Section("Desired state (spec)", tuple(_facts(spec))),
            Section("Observed state (status)", tuple(_facts(observed))),
            Section(
                "Differs from the desired state",
                lines=tuple(_differences(kind, metadata, spec, status)),
            ),
            Section("Conditions", lines=tuple(conditions(status.get("conditions")))),
            Section("Events", lines=tuple(event_lines(events))),
            Section("Not known", lines=tuple(not_listed(found.unreadable))),
            Section(_QUESTION, lines=tuple(answer)),
        ),
    )


def _map(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    """A value on one line: text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def _metadata(metadata: Json) -> tuple[Fact, ...]:
    owners = [_map(owner) for owner in _list(metadata.get("ownerReferences"))]
    return (
        fact("created", _text(metadata.get("creationTimestamp"))),
        fact("being deleted since", _text(metadata.get("deletionTimestamp"))),
        fact("finalizers", *map(_text, _list(metadata.get("finalizers")))),
        fact("owned by", *(f"{_text(o.get('kind'))} {_text(o.get('name'))}" for o in owners)),
        fact("labels", *_pairs(metadata.get("labels"))),
        fact("annotations", *_pairs(metadata.get("annotations"))),
    )


def _pairs(value: object) -> list[str]:
    items = sorted(_map(value).items(), key=lambda item: natural(item[0]))
    return [f"{key}: {_inline(inner)}" for key, inner in items]


def _facts(fields: Json) -> Iterator[Fact]:
    """Every field, in the object's order; lists and maps take a line for each entry.

    An entry that has maps itself is a fact of its own, `gpus[0]`.
    """
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield fact(key, *_pairs(value))
        elif not isinstance(value, list):
            yield fact(key, _text(value))
        elif any(isinstance(inner, Mapping) for one in value for inner in _map(one).values()):
            for number, one in enumerate(value):
                found = _map(one)
                yield fact(f"{key}[{number}]", *(f"{k}: {_inline(v)}" for k, v in found.items()))
        else:
            yield fact(key, *map(_inline, value))


def _inline(value: object) -> str:
    """A value within a line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_inline(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(_inline, value))
    return _text(value)


def _differences(kind: str, metadata: Json, spec: Json, status: Json) -> Iterator[str]:
    seen, generation = status.get("observedGeneration"), metadata.get("generation")
    if isinstance(seen, int) and isinstance(generation, int) and seen < generation:
        yield f"The agent has not acted on generation {generation} yet; it has on {seen}."
    if kind == "VGPUDevice":
        desired = _text(spec.get("vGPUTypeName")) if spec.get("enabled") else ""
        found = _text(status.get("configureVGPUTypeName"))
        if desired != found:
            yield f"Desired vGPU: {desired or 'none'}; configured: {found or 'none'}."
    if kind in ("SRIOVGPUDevice", "SRIOVNetworkDevice"):
        found_vfs = len(_list(status.get("vfAddresses")))
        desired_vfs = spec.get("numVFs")
        if kind == "SRIOVGPUDevice" and bool(spec.get("enabled")) != bool(found_vfs):
            desired = "enabled" if spec.get("enabled") else "disabled"
            yield f"Desired: {desired}; virtual functions: {found_vfs}."
        if isinstance(desired_vfs, int) and desired_vfs != found_vfs:
            yield f"Desired virtual functions: {desired_vfs}; there are {found_vfs}."


def conditions(found: object) -> Iterator[str]:
    """The conditions of a status, each with its message."""
    for one in map(_map, _list(found)):
        reason = f" ({_text(one.get('reason'))})" if one.get("reason") else ""
        since = _text(one.get("lastTransitionTime"))
        yield f"{_text(one.get('type'))}: {_text(one.get('status'))}{reason}" + (
            f" since {since}" if since else ""
        )
        if message := _text(one.get("message")):
            yield f"  {message}"


def event_lines(events: Sequence[Json]) -> Iterator[str]:
    """A line for each event, the oldest first."""
    return map(_event, _by_time(events))


def _by_time(events: Sequence[Json]) -> list[Json]:
    return sorted((_map(event) for event in events), key=_time)


def _time(event: Json) -> str:
    keys = ("lastTimestamp", "eventTime", "firstTimestamp")
    return next((_text(event[key]) for key in keys if event.get(key)), "")


def _event(event: Json) -> str:
    count = event.get("count")
    times = f" ({count} times)" if isinstance(count, int) and count > 1 else ""
    parts = [_time(event), event.get("type"), event.get("reason"), event.get("message")]
    return "  ".join(part for part in map(_text, parts) if part) + times


def _answer(found: Found, kind: str, conditions: Sequence[Json]) -> Iterator[str]:
    """The answer by kind; nothing for kinds that are no device."""
    status = _map(found.obj.get("status"))
    if found.claim:
        claim = _map(found.claim.get("status"))
        yield from _by_claim([_map(one) for one in _list(claim.get("conditions"))])
    elif kind in ("PCIDevice", "USBDevice"):
        yield from _claimable(status, conditions, _text(status.get("resourceName")))
    elif kind == "VGPUDevice":
        if profile := _text(status.get("configureVGPUTypeName")):
            yield f"Yes, as {vgpu_resource_name(profile)}."
        elif status.get("availableTypes"):
            yield "Not yet: set spec.vGPUTypeName to one of availableTypes, and enabled to true."
        else:
            yield "No: its GPU has no room for another vGPU. Disable one of the others first."
    elif kind == "SRIOVNetworkDevice":
        yield "Its virtual functions can, each as a PCIDevice."
    elif kind in ("PCIDeviceClaim", "USBDeviceClaim"):
        yield from _by_claim(conditions)
    elif kind == "SRIOVGPUDevice":
        yield _gpu_answer(_map(found.obj.get("spec")))


def _gpu_answer(spec: Json) -> str:
    if spec.get("enabled"):
        return "Its vGPUs can, once configured. The whole GPU can, once this is disabled."
    name = f"{_text(spec.get('nodeName'))}/{_text(spec.get('address'))}"
    return (
        f"The whole GPU can, once claimed: laneway claim {name}. vGPUs can, once this is enabled "
        f"and they are configured: laneway gpu enable {name}"
    )


def _by_claim(conditions: Sequence[Json]) -> Iterator[str]:
    ready = next((one for one in conditions if one.get("type") == "Ready"), None)
    if ready is None:
        yield "Not known: no agent has answered. Check that an agent runs on the claim's node."
    else:
        yes = "Yes" if ready.get("status") == "True" else "No"
        yield f"{yes}: {_text(ready.get('message'))}"


def _claimable(status: Json, conditions: Sequence[Json], resource: str) -> Iterator[str]:
    """The agent's judgement, by the same rules as for the devices of this host."""
    judged = next((one for one in conditions if one.get("type") == "Claimable"), None)
    claimable = status.get("claimable") if judged is None else judged.get("status") == "True"
    if claimable is None:
        yield "Not known: no agent has answered. Check that an agent runs on its node."
    elif claimable:
        yield f"Yes, once claimed, as {resource}." if resource else "Yes, once claimed."
    else:
        why = _text(judged.get("message")) if judged else "; ".join(_critical(status))
        yield f"No: {why}" if why else "No."
        reason = _text(judged.get("reason")) if judged else ""
        if reason in set(ReasonKind) and (advice := remedy(Reason(kind=ReasonKind(reason)))):
            yield f"  {advice}"


def _critical(status: Json) -> list[str]:
    return [_text(one) for one in _list(status.get("critical"))]
