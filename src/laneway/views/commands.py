"""Lines for a terminal that do with an object what the web interface does.

They are complete: each does what its title says, and nothing else.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Json = Mapping[str, Any]


class Line(NamedTuple):
    """A command, and what it is for."""

    purpose: str
    """Which text says so: `show`, `enable`, ..."""
    command: str


def lines(resource: str, kind: str, obj: Json) -> Sequence[Line]:
    """The lines for an object; `resource` is its collection as kubectl takes it."""
    return tuple(_lines(resource, kind, obj))


def _lines(resource: str, kind: str, obj: Json) -> Iterator[Line]:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    name, namespace = shlex.quote(meta["name"]), meta.get("namespace", "")
    target = f"{resource} {name}" + (f" -n {shlex.quote(namespace)}" if namespace else "")
    yield Line("show", f"kubectl get {target} -o yaml")
    yield Line("describe", f"kubectl describe {target}")
    if not namespace:
        yield Line("explain", f"laneway explain {kind.lower()}/{name}")
    elif kind == "VirtualMachine":
        yield Line("explain", f"laneway explain vm/{name} -n {shlex.quote(namespace)}")
    make = _BY_KIND.get(kind)
    if make is not None:
        yield from make(target, spec, status)


def _patch(target: str, spec: Json) -> str:
    body = json.dumps({"spec": spec}, separators=(",", ":"))
    return f"kubectl patch {target} --type merge -p {shlex.quote(body)}"


def _vgpu(target: str, spec: Json, status: Json) -> Iterator[Line]:
    if spec.get("enabled"):
        yield Line("disable", _patch(target, {"enabled": False}))
    elif types := status.get("availableTypes"):
        profile = min(types)
        yield Line("enable", _patch(target, {"enabled": True, "vGPUTypeName": profile}))


def _place(spec: Json) -> str:
    return shlex.quote(f"{spec.get('nodeName', '')}/{spec.get('address', '')}")


def _gpu(_target: str, spec: Json, status: Json) -> Iterator[Line]:
    if not spec.get("enabled"):
        yield Line("enable", f"laneway gpu enable {_place(spec)}")
        return
    yield Line("disable", f"laneway gpu disable {_place(spec)}")
    if fits := status.get("fits"):
        profile = shlex.quote(f"{min(fits)}=1")
        yield Line("plan", f"laneway vgpu set {_place(spec)} {profile} --dry-run")


def _pci(_target: str, _spec: Json, status: Json) -> Iterator[Line]:
    yield Line("claim", f"laneway claim {_place(status)}")


def _claim(_target: str, spec: Json, _status: Json) -> Iterator[Line]:
    yield Line("release", f"laneway release {_place(spec)}")


def _toggled(target: str, spec: Json, _status: Json) -> Iterator[Line]:
    enabled = bool(spec.get("enabled"))
    yield Line("disable" if enabled else "enable", _patch(target, {"enabled": not enabled}))


def _network(target: str, spec: Json, _status: Json) -> Iterator[Line]:
    has_functions = bool(spec.get("numVFs"))
    # How many a card can have is not in its object; one is possible on each.
    line = _patch(target, {"numVFs": 0 if has_functions else 1})
    yield Line("disable" if has_functions else "enable", line)


def _vm(target: str, spec: Json, _status: Json) -> Iterator[Line]:
    runs = spec.get("runStrategy") == "Always"
    strategy = "Halted" if runs else "Always"
    yield Line("stop" if runs else "start", _patch(target, {"runStrategy": strategy}))


_BY_KIND = {
    "VGPUDevice": _vgpu,
    "SRIOVGPUDevice": _gpu,
    "PCIDevice": _pci,
    "PCIDeviceClaim": _claim,
    "MigConfiguration": _toggled,
    "SRIOVNetworkDevice": _network,
    "VirtualMachine": _vm,
}
