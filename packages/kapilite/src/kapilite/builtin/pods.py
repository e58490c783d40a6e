"""What Kubernetes refuses in pods, and in the templates of which pods are made."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.builtin import rules
from kubebasics import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL = ("Always", "IfNotPresent", "Never")
_CHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_SOURCES_WITHOUT = frozenset({"name"})


def pod(obj: Object, old: Object | None) -> Iterator[Problem]:
    """What is wrong with a pod."""
    new = obj.get("spec") or {}
    yield from spec(new, "spec")
    if old is None:
        return
    before = old.get("spec") or {}
    if _fixed(new, before) != _fixed(before, before):
        yield problem.forbidden("spec", _CHANGEABLE)
    kept = new.get("tolerations") or []
    if any(t not in kept for t in before.get("tolerations") or ()):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield problem.forbidden("spec.tolerations", detail)


def _fixed(new: Object, before: Object) -> Object:
    """The part of a pod that stays as it was made."""
    found = copy.deepcopy(new)
    for name in ("activeDeadlineSeconds", "tolerations"):
        found.pop(name, None)
    if not before.get("nodeName"):
        # Bound by the scheduler, or by whoever takes its place.
        found.pop("nodeName", None)
    if before.get("schedulingGates"):
        for name in ("schedulingGates", "nodeSelector", "affinity"):
            found.pop(name, None)
    for name in ("containers", "initContainers"):
        for container in found.get(name) or ():
            container.pop("image", None)
    found.pop("ephemeralContainers", None)
    return found


def spec(found: Object, path: str) -> Iterator[Problem]:
    """What is wrong with the description of a pod."""
    volumes: set[str] = set()
    for index, volume in enumerate(found.get("volumes") or ()):
        yield from _volume(volume, f"{path}.volumes[{index}]", volumes)
    names: set[str] = set()
    if not found.get("containers"):
        yield problem.required(f"{path}.containers")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(found.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            yield from _container(container, where, names, volumes)
    if found.get("restartPolicy") not in _RESTART:
        value = found.get("restartPolicy", "")
        yield problem.not_supported(f"{path}.restartPolicy", value, sorted(_RESTART))
    if found.get("dnsPolicy") not in _DNS:
        value = found.get("dnsPolicy", "")
        yield problem.not_supported(f"{path}.dnsPolicy", value, sorted(_DNS))
    yield from rules.labels(f"{path}.nodeSelector", found.get("nodeSelector") or {})
    yield from rules.not_negative(found, path, "terminationGracePeriodSeconds")
    seconds = found.get("activeDeadlineSeconds")
    if seconds is not None and not 1 <= seconds < 2**31:
        detail = "must be between 1 and 2147483647, inclusive"
        yield problem.invalid(f"{path}.activeDeadlineSeconds", seconds, detail)


def _volume(volume: Object, path: str, names: set[str]) -> Iterator[Problem]:
    name = volume.get("name", "")
    yield from _unique_name(f"{path}.name", name, names)
    sources = sorted(volume.keys() - _SOURCES_WITHOUT)
    if not sources:
        yield problem.required(path, "must specify a volume type")
    for source in sources[1:]:
        detail = "may not specify more than 1 volume type"
        yield problem.forbidden(f"{path}.{source}", detail)
    if "hostPath" in volume and not (volume["hostPath"] or {}).get("path"):
        yield problem.required(f"{path}.hostPath.path")


def _container(
    container: Object, path: str, names: set[str], volumes: set[str]
) -> Iterator[Problem]:
    yield from _unique_name(f"{path}.name", container.get("name", ""), names)
    image = container.get("image", "")
    if not image:
        yield problem.required(f"{path}.image")
    elif image != image.strip():
        detail = "must not have leading or trailing whitespace"
        yield problem.invalid(f"{path}.image", image, detail)
    if container.get("imagePullPolicy") not in _PULL:
        value = container.get("imagePullPolicy", "")
        yield problem.not_supported(f"{path}.imagePullPolicy", value, _PULL)
    yield from _ports(container.get("ports") or [], f"{path}.ports")
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            yield problem.required(f"{path}.env[{index}].name")
    paths: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        name, at = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield problem.required(f"{where}.name")
        if name not in volumes:
            yield problem.Problem("FieldValueNotFound", f'Not found: "{name}"', f"{where}.name")
        if not at:
            yield problem.required(f"{where}.mountPath")
        elif at in paths:
            yield problem.invalid(f"{where}.mountPath", at, "must be unique")
        paths.add(at)
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _unique_name(field: str, name: str, names: set[str]) -> Iterator[Problem]:
    if not name:
        yield problem.required(field)
        return
    yield from rules.dns_label(field, name)
    if name in names:
        yield rules.duplicate(field, name)
    names.add(name)


def _ports(ports: list[Object], path: str) -> Iterator[Problem]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if name := port.get("name"):
            yield from rules.port_name(f"{where}.name", name)
            if name in names:
                yield rules.duplicate(f"{where}.name", name)
            names.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            yield problem.required(f"{where}.containerPort")
        else:
            yield from rules.port_number(f"{where}.containerPort", number)
        if port.get("protocol") not in rules.PROTOCOLS:
            value = port.get("protocol", "")
            yield problem.not_supported(f"{where}.protocol", value, rules.PROTOCOLS)


def _resources(found: Object, path: str) -> Iterator[Problem]:
    limits, requests = found.get("limits") or {}, found.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for what, amount in amounts.items():
            if quantity.value(amount) < 0:
                detail = "must be greater than or equal to 0"
                yield problem.invalid(f"{path}.{field}[{what}]", amount, detail)
    for what, amount in requests.items():
        if what in limits and quantity.value(amount) > quantity.value(limits[what]):
            detail = f"must be less than or equal to {what} limit of {limits[what]}"
            yield problem.invalid(f"{path}.requests", amount, detail)
        elif "/" in what and limits.get(what) != amount:
            detail = f"must be equal to {what} limit of {limits.get(what, '0')}"
            yield problem.invalid(f"{path}.requests", amount, detail)
    for what in limits:
        if "/" in what and what not in requests and requests:
            yield problem.required(
                f"{path}.limits", "Limit must be set for non overcommitable resources"
            )
