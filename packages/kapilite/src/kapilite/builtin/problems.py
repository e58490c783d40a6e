"""What Kubernetes refuses in objects of its own kinds, beyond their types.

The rules that people and programs run into: what must be given, what may not change, names and
selectors that must fit. Texts are those of a real API server. Every rule is total: it is asked
about objects that have been decoded, but may lack any part.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.builtin import devices, pods, policies, rules, slices, types, workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kapilite.kinds import Kind
    from kapilite.problems import Problem

Object = dict[str, Any]

_KEY = re.compile("[-._a-zA-Z0-9]+")
_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_SIZE = 1024 * 1024
_TLS = ("tls.crt", "tls.key")


def problems(kind: Kind, obj: Object, old: Object | None) -> list[Problem]:
    """Everything that keeps a decoded object from being stored in place of `old`."""
    found = _RULES.get(types.name_of(kind) or "")
    return list(found(obj, old)) if found else []


def _config_map(obj: Object, old: Object | None) -> Iterator[Problem]:
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            yield from _key(f"{field}[{key}]", key)
    for key in (obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys():
        yield problem.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
    texts = list((obj.get("data") or {}).values())
    yield from _size("", texts, list((obj.get("binaryData") or {}).values()))
    yield from _frozen(obj, old, ("data", "binaryData"))


def _secret(obj: Object, old: Object | None) -> Iterator[Problem]:
    data = obj.get("data") or {}
    for key in data:
        yield from _key(f"data[{key}]", key)
    yield from _size("data", [], list(data.values()))
    match obj.get("type"):
        case "kubernetes.io/tls":
            for key in _TLS:
                if key not in data:
                    yield problem.required(f"data[{key}]")
        case "kubernetes.io/dockerconfigjson" if ".dockerconfigjson" not in data:
            yield problem.required("data[.dockerconfigjson]")
        case "kubernetes.io/dockercfg" if ".dockercfg" not in data:
            yield problem.required("data[.dockercfg]")
        case "kubernetes.io/basic-auth" if not {"username", "password"} & data.keys():
            yield problem.required("data[username]")
            yield problem.required("data[password]")
        case "kubernetes.io/ssh-auth" if "ssh-privatekey" not in data:
            yield problem.required("data[ssh-privatekey]")
        case "kubernetes.io/service-account-token":
            notes = obj["metadata"].get("annotations") or {}
            if not notes.get("kubernetes.io/service-account.name"):
                path = "metadata.annotations[kubernetes.io/service-account.name]"
                yield problem.required(path)
    if old is not None:
        yield from rules.immutable("type", obj.get("type", ""), old.get("type", ""))
    yield from _frozen(obj, old, ("data",))


def _key(field: str, key: str) -> Iterator[Problem]:
    if len(key) > 253:
        yield problem.invalid(field, key, "must be no more than 253 characters")
    if not _KEY.fullmatch(key):
        yield problem.invalid(field, key, _KEY_TEXT)
    elif key in (".", "..") or key.startswith(".."):
        detail = "must not be '.'" if key == "." else "must not start with '..'"
        yield problem.invalid(field, key, "must not be '..'" if key == ".." else detail)


def _size(field: str, texts: list[str], encoded: list[str]) -> Iterator[Problem]:
    total = sum(len(text.encode()) for text in texts)
    total += sum(len(text) * 3 // 4 - text.count("=") for text in encoded)
    if total > _SIZE:
        yield problem.too_long(field, _SIZE)


def _frozen(obj: Object, old: Object | None, fields: tuple[str, ...]) -> Iterator[Problem]:
    if old is None or not old.get("immutable"):
        return
    detail = "field is immutable when `immutable` is set"
    if not obj.get("immutable"):
        yield problem.forbidden("immutable", detail)
    for field in fields:
        if (obj.get(field) or {}) != (old.get(field) or {}):
            yield problem.forbidden(field, detail)


_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def _service(obj: Object, old: Object | None) -> Iterator[Problem]:
    spec = obj.get("spec") or {}
    yield from _service_name(obj)
    ports, kind = spec.get("ports") or [], spec.get("type", "")
    headless = spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield problem.required("spec.ports")
    if kind not in _TYPES:
        yield problem.not_supported("spec.type", kind, _TYPES)
    if headless and kind in ("NodePort", "LoadBalancer"):
        detail = f"may not be set to 'None' for {kind} services"
        yield problem.invalid("spec.clusterIPs[0]", "None", detail)
    if kind == "ExternalName" and not spec.get("externalName"):
        yield problem.required("spec.externalName")
    if spec.get("sessionAffinity") not in ("ClientIP", "None"):
        value = spec.get("sessionAffinity", "")
        yield problem.not_supported("spec.sessionAffinity", value, ("ClientIP", "None"))
    yield from rules.labels("spec.selector", spec.get("selector") or {})
    yield from _service_ports(ports)
    before = (old or {}).get("spec") or {}
    if kind == "ClusterIP":
        yield from _no_node_ports(ports, before)
    held = before.get("clusterIP")
    moved = held and spec.get("clusterIP") not in (None, "", held)
    if moved and "ExternalName" not in (kind, before.get("type")):
        value = [spec["clusterIP"]]
        yield problem.invalid("spec.clusterIPs[0]", value, "may not change once set")


def _service_name(obj: Object) -> Iterator[Problem]:
    if name := obj["metadata"].get("name"):
        yield from problem.unfit("metadata.name", name, names.label_1035(name))


def _service_ports(ports: list[Object]) -> Iterator[Problem]:
    seen: set[str] = set()
    keys: set[tuple[Any, Any]] = set()
    node_ports: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield problem.required(f"{field}.name")
        elif name and name in seen:
            yield problem.duplicate(f"{field}.name", name)
        seen.add(name)
        yield from rules.port_number(f"{field}.port", port.get("port", 0))
        if port.get("protocol") not in rules.PROTOCOLS:
            value = port.get("protocol", "")
            yield problem.not_supported(f"{field}.protocol", value, rules.PROTOCOLS)
        yield from rules.port_or_name(f"{field}.targetPort", port.get("targetPort", 0))
        key = (port.get("port"), port.get("protocol"))
        if key in keys:
            yield problem.duplicate(field, {"port": key[0], "protocol": key[1]})
        keys.add(key)
        outside = (port.get("nodePort"), port.get("protocol"))
        if outside[0] and outside in node_ports:
            yield problem.duplicate(f"{field}.nodePort", outside[0])
        node_ports.add(outside)


def _no_node_ports(ports: list[Object], before: Object) -> Iterator[Problem]:
    """Those of the type that the service had before are not requested: they are dropped."""
    held = {port.get("nodePort") for port in before.get("ports") or ()}
    for index, port in enumerate(ports):
        if port.get("nodePort") and port["nodePort"] not in held:
            detail = "may not be used when `type` is 'ClusterIP'"
            yield problem.forbidden(f"spec.ports[{index}].nodePort", detail)


def _lease(obj: Object, _: Object | None) -> Iterator[Problem]:
    spec = obj.get("spec") or {}
    seconds, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield problem.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    if moves is not None and moves < 0:
        detail = "must be greater than or equal to 0"
        yield problem.invalid("spec.leaseTransitions", moves, detail)


def _event(obj: Object, _: Object | None) -> Iterator[Problem]:
    about = obj.get("involvedObject") or {}
    namespace = obj["metadata"].get("namespace", "")
    if about.get("namespace", "") not in (namespace, "") or (
        not about.get("namespace") and namespace != "default"
    ):
        yield problem.invalid(
            "involvedObject.namespace", about.get("namespace", ""), "does not match event.namespace"
        )


def _priority_class(obj: Object, old: Object | None) -> Iterator[Problem]:
    if old is not None and obj.get("value", 0) != old.get("value", 0):
        yield problem.forbidden("value", "may not be changed in an update.")


def _storage_class(obj: Object, old: Object | None) -> Iterator[Problem]:
    if not obj.get("provisioner"):
        yield problem.required("provisioner")
    for field in ("parameters", "provisioner", "reclaimPolicy") if old else ():
        if old and obj.get(field) != old.get(field):
            yield problem.forbidden(field, "updates to " + field + " are forbidden.")


_RULES: dict[str, Callable[[Object, Object | None], Iterator[Problem]]] = {
    "apps.v1.DaemonSet": workloads.daemon_set,
    "apps.v1.Deployment": workloads.deployment,
    "apps.v1.ReplicaSet": workloads.replica_set,
    "apps.v1.StatefulSet": workloads.stateful_set,
    "batch.v1.Job": workloads.job,
    "coordination.v1.Lease": _lease,
    "core.v1.ConfigMap": _config_map,
    "core.v1.Event": _event,
    "core.v1.Pod": pods.pod,
    "core.v1.Secret": _secret,
    "core.v1.Service": _service,
    "networking.v1.NetworkPolicy": policies.network_policy,
    "resource.v1.DeviceClass": devices.device_class,
    "resource.v1.ResourceClaim": devices.resource_claim,
    "resource.v1.ResourceClaimTemplate": devices.resource_claim_template,
    "resource.v1.ResourceSlice": slices.resource_slice,
    "scheduling.v1.PriorityClass": _priority_class,
    "storage.v1.StorageClass": _storage_class,
}
