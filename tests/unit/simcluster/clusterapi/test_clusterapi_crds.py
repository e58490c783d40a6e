"""The definitions of Cluster API's kinds that are shipped: made from the copies, and only added to.

What CAPV takes is taken, and what Laneway adds is kept and not dropped by the server.
"""

from __future__ import annotations

import importlib.util
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from laneway.api.crds import crds
from laneway.cli.commands.install import crds as crds_command

ROOT = Path(__file__).parents[4]
PROVIDER = "infrastructure.cluster.x-k8s.io"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """The tool that makes them."""
    path = ROOT / "tools/capv-crds/generate.py"
    spec = importlib.util.spec_from_file_location("generate_capv_crds", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shipped(generator: ModuleType) -> dict[str, Any]:
    found = json.loads(lzma.decompress(generator.TARGET.read_bytes()))
    return {crd["metadata"]["name"]: crd for crd in found}


def copied(name: str) -> Any:
    """CAPV's own definition, its version v1beta2."""
    plural, _, group = name.partition(".")
    path = ROOT / "tests/data/crds" / f"{group}_{plural}.yaml"
    crd = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    return next(one for one in crd["spec"]["versions"] if one["name"] == "v1beta2")


def at(crd: Any, path: str) -> Any:
    """The schema of a field; `[]` goes into the items of a list."""
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for part in path.replace("[]", ".[]").split("."):
        schema = schema["items"] if part == "[]" else schema["properties"][part]
    return schema


def fields(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field, with everything that is said of it but its text and its own fields."""
    for name, inner in schema.get("properties", {}).items():
        rules = {
            key: value
            for key, value in inner.items()
            if key not in ("description", "properties", "items")
        }
        yield f"{path}.{name}", rules
        yield from fields(inner, f"{path}.{name}")
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


@pytest.mark.slow
def test_the_file_is_what_the_tool_makes_of_the_copies(
    generator: ModuleType, shipped: dict[str, Any]
) -> None:
    assert list(shipped.values()) == [generator.definition(kind) for kind in generator.KINDS]


def test_every_field_of_the_projects_is_there_with_its_rules(shipped: dict[str, Any]) -> None:
    for name, crd in shipped.items():
        [version] = crd["spec"]["versions"]
        assert version["name"] == "v1beta2"
        assert version["served"]
        assert version["storage"]
        theirs = dict(fields(copied(name)["schema"]["openAPIV3Schema"]))
        ours = dict(fields(version["schema"]["openAPIV3Schema"]))
        assert {path: ours.get(path) for path in theirs} == theirs, name


def test_only_kinds_with_devices_have_more_fields(shipped: dict[str, Any]) -> None:
    more = {
        name
        for name, crd in shipped.items()
        if len(list(fields(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])))
        != len(list(fields(copied(name)["schema"]["openAPIV3Schema"])))
    }

    assert more == {
        f"{plural}.{PROVIDER}"
        for plural in ("vspheremachines", "vspheremachinetemplates", "vspherevms")
    }


@pytest.mark.parametrize(
    ("plural", "spec"),
    [
        ("vspheremachines", "spec"),
        ("vspherevms", "spec"),
        ("vspheremachinetemplates", "spec.template.spec"),
    ],
)
def test_every_way_to_request_devices_is_kept(
    shipped: dict[str, Any], plural: str, spec: str
) -> None:
    crd = shipped[f"{plural}.{PROVIDER}"]
    assert at(crd, f"{spec}.peerToPeer")["type"] == "boolean"
    for listed in ("pciDevices", "pcidevices", "vgpudevices"):
        item = at(crd, f"{spec}.{listed}[]")["properties"]
        assert set(item) == {
            "allowedDevices",
            "customLabel",
            "deviceGroupName",
            "deviceId",
            "profileName",
            "vGPUProfile",
            "vendorId",
        }
        assert set(item["allowedDevices"]["items"]["properties"]) == {
            "deviceId",
            "revisionId",
            "subDeviceId",
            "subVendorId",
            "vendorId",
        }


@pytest.mark.parametrize("plural", ["vspheremachines", "vspherevms"])
def test_the_status_of_devices_is_that_of_the_reservation(
    shipped: dict[str, Any], plural: str
) -> None:
    [reservation] = [one for one in crds() if one["spec"]["names"]["kind"] == "VSphereReservation"]

    found = at(shipped[f"{plural}.{PROVIDER}"], "status.pciDevices")

    assert found == at(reservation, "status.devices")


def test_a_template_says_what_its_machines_will_have(shipped: dict[str, Any]) -> None:
    crd = shipped[f"vspheremachinetemplates.{PROVIDER}"]

    assert at(crd, "status.capacity")["additionalProperties"]["x-kubernetes-int-or-string"]
    assert crd["spec"]["versions"][0]["subresources"] == {"status": {}}


def test_cluster_api_finds_the_version_of_its_contract(shipped: dict[str, Any]) -> None:
    labels = [crd["metadata"]["labels"] for crd in shipped.values()]
    assert all(one["cluster.x-k8s.io/v1beta2"] == "v1beta2" for one in labels)


def test_the_provider_s_definitions_are_printed(shipped: dict[str, Any]) -> None:
    printed = CliRunner().invoke(crds_command, ["--vsphere"])

    assert printed.exit_code == 0
    assert list(yaml.safe_load_all(printed.stdout)) == [
        crd for crd in shipped.values() if crd["spec"]["group"] == PROVIDER
    ]
