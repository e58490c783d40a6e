"""The CRDs take every object that Harvester's controllers and users write, and keep its meaning.

`CONTRACT` is written from the published schemas, not from our Structs: `str`, `[str]`, `{str}`
(a map of strings) and `[obj]` may be null, `int` and `bool` may not.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kapilite.cel.evaluation import plan, problems
from laneway import api
from laneway.api.crds import crds, crds_yaml

CONTRACT: dict[str, dict[str, str]] = {
    "PCIDevice": {
        "status.address": "str",
        "status.classId": "str",
        "status.description": "str",
        "status.deviceId": "str",
        "status.iommuGroup": "str",
        "status.kernelDriverInUse": "str",
        "status.nodeName": "str",
        "status.resourceName": "str",
        "status.vendorId": "str",
    },
    "PCIDeviceClaim": {
        "spec.address": "str",
        "spec.disableResourcePooling": "bool",
        "spec.nodeName": "str",
        "spec.userName": "str",
        "status.kernelDriverToUnbind": "str",
        "status.passthroughEnabled": "bool",
    },
    "SRIOVNetworkDevice": {
        "spec.address": "str",
        "spec.nodeName": "str",
        "spec.numVFs": "int",
        "status.status": "str",
        "status.vfAddresses": "[str]",
        "status.vfPCIDevices": "[str]",
    },
    "Node": {},
    "SRIOVGPUDevice": {
        "spec.address": "str",
        "spec.enabled": "bool",
        "spec.nodeName": "str",
        "status.vGPUDevices": "[str]",
        "status.vfAddresses": "[str]",
    },
    "VGPUDevice": {
        "spec.address": "str",
        "spec.enabled": "bool",
        "spec.nodeName": "str",
        "spec.parentGPUDeviceAddress": "str",
        "spec.vGPUTypeName": "str",
        "status.availableTypes": "{str}",
        "status.configureVGPUTypeName": "str",
        "status.uuid": "str",
        "status.vGPUStatus": "str",
    },
    "USBDevice": {
        "status.classType": "str",
        "status.description": "str",
        "status.devicePath": "str",
        "status.enabled": "bool",
        "status.message": "str",
        "status.nodeName": "str",
        "status.pciAddress": "str",
        "status.productID": "str",
        "status.resourceName": "str",
        "status.status": "str",
        "status.vendorID": "str",
    },
    "USBDeviceClaim": {
        "spec.userName": "str",
        "status.nodeName": "str",
        "status.pciAddress": "str",
    },
    "MigConfiguration": {
        "spec.enabled": "bool",
        "spec.gpuAddress": "str",
        "spec.nodeName": "str",
        "spec.profileSpec": "[obj]",
        "spec.profileSpec[].id": "int",
        "spec.profileSpec[].name": "str",
        "spec.profileSpec[].requested": "int",
        "status.message": "str",
        "status.profileStatus": "[obj]",
        "status.profileStatus[].available": "int",
        "status.profileStatus[].id": "int",
        "status.profileStatus[].name": "str",
        "status.profileStatus[].total": "int",
        "status.profileStatus[].vGPUID": "[str]",
        "status.status": "str",
    },
}

COLUMNS: dict[str, str] = {
    "PCIDevice": "Address=.status.address; Vendor Id=.status.vendorId; "
    "Device Id=.status.deviceId; Node Name=.status.nodeName; "
    "Description=.status.description; Kernel Driver In Use=.status.kernelDriverInUse",
    "PCIDeviceClaim": "Address=.spec.address; Node Name=.spec.nodeName; "
    "User Name=.spec.userName; Kernel Driver To Unbind=.status.kernelDriverToUnbind; "
    "Passthrough Enabled=.status.passthroughEnabled",
    "SRIOVNetworkDevice": "Address=.spec.address; Node Name=.spec.nodeName; "
    "NumVFs=.spec.numVFs; VF Addresses=.status.vfAddresses",
    "Node": "Age=.metadata.creationTimestamp",  # what kubectl shows of a kind without columns
    "SRIOVGPUDevice": "Address=.spec.address; Node Name=.spec.nodeName; Enabled=.spec.enabled; "
    "VGPUDevices=.status.vGPUDevices",
    "VGPUDevice": "Address=.spec.address; Node Name=.spec.nodeName; Enabled=.spec.enabled; "
    "UUID=.status.uuid; VGPUType=.status.configureVGPUTypeName; "
    "ParentGPUDevice=.spec.parentGPUDeviceAddress",
    "USBDevice": "Vendor ID=.status.vendorID; Product ID=.status.productID; "
    "Node Name=.status.nodeName; Description=.status.description; "
    "Resource Name=.status.resourceName; PCI Address=.status.pciAddress; "
    "Enabled=.status.enabled",
    "USBDeviceClaim": "Node Name=.status.nodeName; PCI Address=.status.pciAddress; "
    "User Name=.spec.userName",
    "MigConfiguration": "Node Name=.spec.nodeName; Address=.spec.gpuAddress; "
    "Enabled=.spec.enabled; Status=.status.status; Message=.status.message",
}

FIXED: dict[str, set[str]] = {
    "PCIDeviceClaim": {"address", "nodeName", "userName"},
    "SRIOVNetworkDevice": {"address", "nodeName"},
    "SRIOVGPUDevice": {"address", "nodeName"},
    "VGPUDevice": {"address", "nodeName", "parentGPUDeviceAddress"},
    "USBDeviceClaim": {"userName"},
    "MigConfiguration": {"gpuAddress", "nodeName"},
}

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in crds()}
SCHEMAS = {
    kind: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind, crd in CRDS.items()
}
TYPES = {info.kind: info.type for info in api.KINDS}
KIND_NAMES = sorted(CONTRACT)
JSON_TYPES = {"str": "string", "int": "integer", "bool": "boolean"}


def at(schema: dict[str, Any], path: str) -> dict[str, Any]:
    """The schema of a field; `[]` goes into the items of a list."""
    for part in path.replace("[]", ".[]").split("."):
        schema = schema["items"] if part == "[]" else schema["properties"][part]
    return schema


def violations(schema: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """What an API server would refuse."""
    if value is None:
        return [] if schema.get("nullable") else [f"{path}: null"]
    types = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}
    if type(value) is not types[schema["type"]]:
        return [f"{path}: {value!r} is no {schema['type']}"]
    found = []
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{path}: {value!r} does not match")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is not allowed")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{path}: {value} is too small")
    if isinstance(value, dict):
        found += [
            f"{path}.{key}: missing" for key in schema.get("required", ()) if key not in value
        ]
        for key, item in value.items():
            inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            found += violations(inner, item, f"{path}.{key}") if inner else []
    if isinstance(value, list):
        for item in value:
            found += violations(schema["items"], item, f"{path}[]")
    return found


TEXT = st.text(max_size=12)
NULLABLE_TEXT = st.none() | TEXT
ONE_LINE = ("spec.nodeName", "spec.userName")
ADDRESS = st.from_regex(r"\A([0-9a-f]{4}|1[0-9a-f]{4}):[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")


def field_values(kind: str, path: str, form: str) -> st.SearchStrategy[Any]:
    if form == "bool":
        return st.booleans()
    if form == "int":
        return st.integers(0, 2**31)
    if form == "[str]":
        return st.none() | st.lists(NULLABLE_TEXT, max_size=3)
    if form == "{str}":
        return st.none() | st.dictionaries(TEXT, NULLABLE_TEXT, max_size=3)
    if form == "[obj]":
        return st.none() | st.lists(struct_values(kind, f"{path}[]."), max_size=3)
    if path.lower().endswith("address"):
        return st.none() | st.just("") | ADDRESS
    if path in ONE_LINE:
        return st.none() | st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)
    return NULLABLE_TEXT


def struct_values(kind: str, prefix: str) -> st.SearchStrategy[dict[str, Any]]:
    fields = {
        path.removeprefix(prefix): field_values(kind, path, form)
        for path, form in CONTRACT[kind].items()
        if path.startswith(prefix) and "[]" not in path.removeprefix(prefix)
    }
    return st.fixed_dictionaries({}, optional=fields)


@st.composite
def stored_objects(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = draw(st.sampled_from(KIND_NAMES))
    stored: dict[str, Any] = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "one", "creationTimestamp": None},
    }
    for part in ("spec", "status"):
        if draw(st.booleans()):
            stored[part] = draw(struct_values(kind, f"{part}."))
    return kind, stored


def meaning(value: Any) -> Any:
    """What a client makes of a value: null, empty and absent are the same."""
    if isinstance(value, dict):
        kept = {key: meaning(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in kept.items() if item not in ("", [], {}, False, 0)}
    if isinstance(value, list):
        return [meaning(item) for item in value if item is not None]
    return value


@given(stored_objects())
def test_objects_of_the_contract_are_valid_and_read_without_loss(
    item: tuple[str, dict[str, Any]],
) -> None:
    kind, stored = item

    assert violations(SCHEMAS[kind], stored) == []
    read = api.to_builtins(api.decode(TYPES[kind], json.dumps(stored).encode()))
    for part in ("spec", "status"):
        kept = {
            key: value
            for key, value in read.get(part, {}).items()
            if f"{part}.{key}" in CONTRACT[kind]
        }
        assert meaning(kept) == meaning(stored.get(part, {}))


@pytest.mark.parametrize("name", ["admin\nX", "admin\rX", "a\x1b[2Jb", "a\x00", "a\x85b", "a\tb"])
def test_names_of_users_and_nodes_are_one_line(name: str) -> None:
    """What follows would look like a line of its own in a list, or in a log."""
    for kind in KIND_NAMES:
        for field in ONE_LINE:
            if field in CONTRACT[kind]:
                spec = {field.removeprefix("spec."): name}
                assert violations(SCHEMAS[kind], {"spec": spec}), (kind, field)
                plain = {field.removeprefix("spec."): "system:serviceaccount:a:b é 名"}
                assert not violations(SCHEMAS[kind], {"spec": plain})


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_fields_have_the_types_of_the_contract(kind: str) -> None:
    for path, form in CONTRACT[kind].items():
        schema = at(SCHEMAS[kind], path)
        if form == "{str}":
            assert (schema["type"], schema["nullable"]) == ("object", True)
            assert schema["additionalProperties"] == {"type": "string", "nullable": True}
        elif form.startswith("["):
            assert (schema["type"], schema["nullable"]) == ("array", True)
            assert schema["items"]["type"] == ("string" if form == "[str]" else "object")
            assert schema["items"].get("nullable", False) is (form == "[str]")
        else:
            assert schema["type"] == JSON_TYPES[form]
            assert schema.get("nullable", False) is (form == "str")


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_columns_are_those_of_the_contract_then_wide_ones(kind: str) -> None:
    columns = CRDS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column for column in columns if not column.get("priority")]

    ours = [column for column in columns if column.get("priority")]
    lists = (".status.vGPUDevices", ".status.vfAddresses")  # whose width hides what follows
    first = [column for column in shown if column["jsonPath"] not in lists]
    assert columns[: len(first) + len(ours)] == first + ours
    assert "; ".join(f"{one['name']}={one['jsonPath']}" for one in shown) == COLUMNS[kind]
    described = [column for column in columns if column["name"] != "Age"]
    assert {column["type"] for column in described} == {"string"}
    for column in described:
        at(SCHEMAS[kind], re.sub(r"\[.*\]", "[]", column["jsonPath"]).removeprefix("."))


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_identity_fields_cannot_be_changed_and_nothing_else_is_fixed(kind: str) -> None:
    spec = SCHEMAS[kind]["properties"].get("spec", {"properties": {}}).get("properties", {})
    texts = [name for name, field in spec.items() if field["type"] == "string"]
    rules = plan(SCHEMAS[kind], is_root=True)
    fixed = FIXED.get(kind, set())

    for name in texts:
        there, absent = {"spec": {name: "one"}}, ({"spec": {name: None}}, {"spec": {}}, {})
        for new in ({"spec": {name: "other"}}, *absent):
            found = [problem.field for problem in problems(rules, new, there)] if rules else []
            assert found == ([f"spec.{name}"] if name in fixed else []), new
        for old in absent:
            assert rules is None or problems(rules, there, old) == []
    assert fixed <= set(texts)


@pytest.mark.parametrize("address", ["0000:00:00.0; id", "../../etc", "0000:00:00.8", "0", " "])
def test_addresses_that_are_none_are_refused(address: str) -> None:
    for kind, field in (("VGPUDevice", "address"), ("MigConfiguration", "gpuAddress")):
        assert violations(SCHEMAS[kind], {"spec": {field: address}}) != []


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_conditions_are_kept_by_type(kind: str) -> None:
    status = SCHEMAS[kind]["properties"]["status"]["properties"]

    conditions = status["conditions"]
    assert status["observedGeneration"] == {
        "description": "Generation of the object that this status is about.",
        "type": "integer",
        "format": "int64",
    }
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["required"] == ["type", "status"]
    assert CRDS[kind]["spec"]["versions"][0]["subresources"] == {"status": {}}
    # The API server refuses null in the keys of a keyed list, and null entries.
    assert not conditions["items"].get("nullable")
    assert not conditions["items"]["properties"]["type"].get("nullable")


def structural_faults(schema: dict[str, Any], path: str) -> list[str]:
    """Breaches of the rules for structural schemas."""
    allowed = {
        "type",
        "format",
        "description",
        "nullable",
        "properties",
        "required",
        "items",
        "additionalProperties",
        "enum",
        "pattern",
        "minimum",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-validations",
    }
    faults = [f"{path}: {key}" for key in schema if key not in allowed]
    if "type" not in schema:
        faults.append(f"{path}: no type")
    if "properties" in schema and "additionalProperties" in schema:
        faults.append(f"{path}: properties beside additionalProperties")
    if schema.get("type") == "array" and "items" not in schema:
        faults.append(f"{path}: no items")
    undeclared = set(schema.get("required", ())) - set(schema.get("properties", {}))
    faults += [f"{path}: required {key} is not declared" for key in undeclared]
    for key, inner in schema.get("properties", {}).items():
        faults += structural_faults(inner, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            faults += structural_faults(schema[key], f"{path}.{key}")
    return faults


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_schemas_are_structural(kind: str) -> None:
    assert structural_faults(SCHEMAS[kind], "") == []
    assert SCHEMAS[kind]["properties"]["metadata"] == {"type": "object"}


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_what_laneway_writes_is_valid(kind: str) -> None:
    assert violations(SCHEMAS[kind], api.to_builtins(TYPES[kind]())) == []


def test_every_field_is_explained() -> None:
    """`kubectl explain` has an answer at every level."""

    def silent(schema: dict[str, Any], path: str) -> list[str]:
        fields = schema.get("properties") or schema.get("items", {}).get("properties") or {}
        own = [f"{path}.{key}" for key, inner in fields.items() if not inner.get("description")]
        return own + [
            one for key, inner in fields.items() for one in silent(inner, f"{path}.{key}")
        ]

    found = [one for kind, schema in SCHEMAS.items() for one in silent(schema, kind)]
    assert [one for one in found if not one.endswith(".metadata")] == []


def test_yaml_holds_the_same_and_no_anchors() -> None:
    text = crds_yaml()

    assert list(yaml.safe_load_all(text)) == crds()
    assert not re.search(r"[:-] [&*]id\d", text)


def test_every_kind_is_in_the_category_and_no_short_name_means_two() -> None:
    names = [crd["spec"]["names"] for crd in crds()]
    called = [word for one in names for word in (one["plural"], one["singular"])]
    called += [short for one in names for short in one.get("shortNames", [])]
    assert {tuple(one["categories"]) for one in names} == {("laneway",)}
    assert len(called) == len(set(called))
    assert "vgpu" in called
