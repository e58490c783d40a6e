from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway import api

STORED: dict[str, Any] = {
    "apiVersion": "devices.harvesterhci.io/v1beta1",
    "kind": "VGPUDevice",
    "metadata": {"name": "node1-000008004", "resourceVersion": "7", "managedFields": [{"a": 1}]},
    "spec": {
        "address": "0000:08:00.4",
        "nodeName": "node1",
        "enabled": True,
        "vGPUTypeName": "NVIDIA A2-2Q",
        "parentGPUDeviceAddress": "0000:08:00.0",
    },
    "status": {
        "vGPUStatus": "vGPUConfigured",
        "configureVGPUTypeName": "NVIDIA A2-2Q",
        "availableTypes": {"NVIDIA A2-2Q": "nvidia-745"},
        "later": {"field": 1},
    },
}


def test_fields_have_python_names() -> None:
    vgpu = api.decode(api.VGPUDevice, json.dumps(STORED).encode())

    assert vgpu.metadata.name == "node1-000008004"
    assert vgpu.spec.vgpu_type_name == "NVIDIA A2-2Q"
    assert vgpu.spec.parent_gpu_device_address == "0000:08:00.0"
    assert vgpu.status.vgpu_status == api.VGPU_CONFIGURED
    assert vgpu.status.configure_vgpu_type_name == "NVIDIA A2-2Q"
    assert vgpu.status.available_types == {"NVIDIA A2-2Q": "nvidia-745"}


def test_text_raw_and_parsed_json_read_the_same() -> None:
    text = json.dumps(STORED).encode()

    one = api.decode(api.VGPUDevice, text)
    assert one == api.decode(api.VGPUDevice, msgspec.Raw(text))
    assert one == api.decode(api.VGPUDevice, STORED)


@pytest.mark.parametrize("as_text", [True, False])
def test_nulls_count_as_absent(as_text: bool) -> None:
    stored = {
        "metadata": {"name": "gpu", "labels": None, "creationTimestamp": None},
        "spec": None,
        "status": {"vfAddresses": ["0000:08:00.4", None], "vGPUDevices": None},
    }
    raw = json.dumps(stored).encode() if as_text else stored

    gpu = api.decode(api.SRIOVGPUDevice, raw)

    assert gpu.metadata == api.ObjectMeta(name="gpu")
    assert gpu.spec == api.SRIOVGPUDeviceSpec()
    assert list(gpu.status.vf_addresses) == ["0000:08:00.4"]


def test_an_odd_address_that_is_stored_can_be_read() -> None:
    claim = api.decode(api.PCIDeviceClaim, {"spec": {"address": "$(reboot)"}})

    assert claim.spec.address == "$(reboot)"


def test_an_unreadable_object_is_named_with_its_field() -> None:
    stored = {"metadata": {"name": "node1-x"}, "spec": {"numVFs": "four", "nodeName": None}}

    with pytest.raises(api.DecodeError, match=r"^SRIOVNetworkDevice node1-x: .*`\$.spec.numVFs`"):
        api.decode(api.SRIOVNetworkDevice, json.dumps(stored).encode())


def failure(raw: Any) -> str:
    """The text of the one error that reading may raise; empty when the object was read."""
    try:
        api.decode(api.PCIDevice, raw)
    except api.DecodeError as error:
        return str(error)
    return ""


@given(st.binary(max_size=60))
def test_any_bytes_give_an_object_or_one_line_of_error(raw: bytes) -> None:
    assert "\n" not in failure(raw)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "name", "labels", "status", "conditions", "bars", "link"]),
            inner,
            max_size=4,
        )
    ),
)


@given(ANY_JSON)
def test_any_json_gives_an_object_or_an_error_that_names_the_kind(value: Any) -> None:
    error = failure(value if isinstance(value, dict) else json.dumps(value).encode())

    assert not error or error.startswith("PCIDevice")


@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"spec":' * 100_000])
def test_deep_nesting_is_an_error_not_a_crash(raw: bytes) -> None:
    with pytest.raises(api.DecodeError):
        api.decode(api.PCIDevice, raw)


def test_kind_and_contract_booleans_are_always_written() -> None:
    assert api.to_builtins(api.VGPUDevice()) == {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPUDevice",
        "metadata": {},
        "spec": {"enabled": False},
        "status": {},
    }
    assert api.to_builtins(api.PCIDeviceClaim())["status"] == {"passthroughEnabled": False}


def test_a_decided_false_is_written_an_undecided_one_is_not() -> None:
    assert api.to_builtins(api.PCIDevice())["status"] == {}
    decided = api.PCIDevice(status=api.PCIDeviceStatus(claimable=False))
    assert api.to_builtins(decided)["status"] == {"claimable": False}


@pytest.mark.parametrize("info", [*api.KINDS, api.CORE_NODE], ids=lambda info: info.type.__name__)
def test_every_kind_says_what_it_is_and_where_it_is_served(info: api.KindInfo) -> None:
    written = api.to_builtins(info.type())

    assert (written["apiVersion"], written["kind"]) == (info.api_version, info.kind)
    assert api.kind_of(info.type) is info
    assert info.plural == info.singular.removesuffix("y") + ("ies" if "ies" in info.plural else "s")


def test_collections_have_paths() -> None:
    assert api.kind_of(api.USBDevice).path == "/apis/devices.harvesterhci.io/v1beta1/usbdevices"
    assert api.CORE_NODE.path == "/api/v1/nodes"
