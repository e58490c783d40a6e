"""What Kubernetes refuses in pods, and in the templates of which pods are made."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.builtin import rules
from kubebasics import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
_HUGE = "hugepages-"
_NATIVE = ("cpu", "ephemeral-storage", "memory")
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
        # Bound by the scheduler, or by what takes its place.
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
    taken: set[str] = set()
    claims = {claim.get("name", "") for claim in found.get("resourceClaims") or ()}
    if not found.get("containers"):
        yield problem.required(f"{path}.containers")
    for field in ("containers", "initContainers"):
        for index, container in enumerate(found.get(field) or ()):
            where = f"{path}.{field}[{index}]"
            yield from _container(container, where, taken, volumes, claims)
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


def _volume(volume: Object, path: str, taken: set[str]) -> Iterator[Problem]:
    name = volume.get("name", "")
    yield from _unique_name(f"{path}.name", name, taken)
    sources = sorted(volume.keys() - _SOURCES_WITHOUT)
    if not sources:
        yield problem.required(path, "must specify a volume type")
    for source in sources[1:]:
        detail = "may not specify more than 1 volume type"
        yield problem.forbidden(f"{path}.{source}", detail)
    if "hostPath" in volume and not (volume["hostPath"] or {}).get("path"):
        yield problem.required(f"{path}.hostPath.path")


def _container(
    container: Object, path: str, taken: set[str], volumes: set[str], claims: set[str]
) -> Iterator[Problem]:
    yield from _unique_name(f"{path}.name", container.get("name", ""), taken)
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
    yield from _resources(container.get("resources") or {}, f"{path}.resources", claims)


def _unique_name(field: str, name: str, taken: set[str]) -> Iterator[Problem]:
    if not name:
        yield problem.required(field)
        return
    yield from rules.dns_label(field, name)
    if name in taken:
        yield problem.duplicate(field, name)
    taken.add(name)


def _ports(ports: list[Object], path: str) -> Iterator[Problem]:
    taken: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if name := port.get("name"):
            yield from rules.port_name(f"{where}.name", name)
            if name in taken:
                yield problem.duplicate(f"{where}.name", name)
            taken.add(name)
        number = port.get("containerPort", 0)
        if number == 0:
            yield problem.required(f"{where}.containerPort")
        else:
            yield from rules.port_number(f"{where}.containerPort", number)
        if port.get("protocol") not in rules.PROTOCOLS:
            value = port.get("protocol", "")
            yield problem.not_supported(f"{where}.protocol", value, rules.PROTOCOLS)


def _resources(found: Object, path: str, claims: set[str]) -> Iterator[Problem]:
    limits, requests = found.get("limits") or {}, found.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for what, amount in amounts.items():
            where = f"{path}.{field}[{what}]"
            yield from _resource_name(what, where)
            if quantity.value(amount) < 0:
                detail = "must be greater than or equal to 0"
                yield problem.invalid(where, amount, detail)
            if _is_extended(what) and quantity.value(amount) % quantity.NANO:
                yield problem.invalid(where, amount, "must be an integer")
    asked = limits.keys() | requests.keys()
    if any(what.startswith(_HUGE) for what in asked) and not asked & {"cpu", "memory"}:
        yield problem.forbidden(path, "HugePages require cpu or memory")
    yield from _claims(found.get("claims") or (), f"{path}.claims", claims)
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


def _resource_name(what: str, path: str) -> Iterator[Problem]:
    wrong = list(problem.unfit(path, what, names.qualified_name(what)))
    yield from wrong
    if "/" not in what and what not in _NATIVE and not what.startswith(_HUGE):
        if not wrong:
            detail = "must be a standard resource type or fully qualified"
            yield problem.invalid(path, what, detail)
        yield problem.invalid(path, what, "must be a standard resource for containers")
    elif _is_extended(what) and what.startswith("requests."):
        yield problem.invalid(path, what, "doesn't follow extended resource name standard")


def _is_extended(what: str) -> bool:
    """Whether it is counted in whole devices: neither Kubernetes' own nor without a domain."""
    return "/" in what and "kubernetes.io/" not in what


def _claims(asked: Sequence[Object], path: str, known: set[str]) -> Iterator[Problem]:
    """Devices of a container are among those that the pod claims."""
    seen: set[str] = set()
    for index, claim in enumerate(asked):
        where, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            yield problem.required(where)
            continue
        if name in seen:
            yield problem.duplicate(where, name)
        seen.add(name)
        if name not in known:
            those = f": {', '.join(sorted(known))}" if known else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{those}"
            yield problem.Problem("FieldValueNotFound", f'Not found: "{name}": {detail}', where)
