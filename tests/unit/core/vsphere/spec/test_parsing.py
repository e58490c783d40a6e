"""Every spelling of a machine's devices, and what cannot be understood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vsphere.spec.parsing import EITHER, Problem, read, read_spec, released
from laneway.core.vsphere.spec.requests import (
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

T4 = {"deviceId": 7864, "vendorId": 4318}
T4_IDS = PciIds(4318, 7864)
VGPU = {"vGPUProfile": "grid_t4-16q"}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("deviceId", "vendorId", "vGPUProfile", "profileName", "customLabel"),
                    *("deviceGroupName", "allowedDevices", "subVendorId", "revisionId", "other"),
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def paths(problems: tuple[Problem, ...]) -> list[str]:
    return [one.path for one in problems]


@pytest.mark.parametrize(
    ("item", "requested_item"),
    [
        (VGPU, VgpuRequest("grid_t4-16q")),
        (T4, PassthroughRequest((T4_IDS,))),
        ({**T4, "customLabel": "gold"}, PassthroughRequest((T4_IDS,), "gold")),
        # What an older client sends for what it does not mean.
        ({**T4, "vGPUProfile": "", "customLabel": ""}, PassthroughRequest((T4_IDS,))),
        ({**VGPU, "deviceId": None, "vendorId": None}, VgpuRequest("grid_t4-16q")),
        ({"profileName": "grid_t4-16q"}, VgpuRequest("grid_t4-16q")),
        ({"deviceGroupName": "Nvidia:4@a100"}, GroupRequest("Nvidia:4@a100")),
        (
            {"allowedDevices": [T4, {**T4, "subVendorId": 0, "revisionId": 161}, T4]},
            PassthroughRequest((T4_IDS, PciIds(4318, 7864, 0, None, 161))),
        ),
        ({"allowedDevices": [T4], "customLabel": "gold"}, PassthroughRequest((T4_IDS,), "gold")),
        # Names are vCenter's: whatever is in them, they are only compared.
        ({"vGPUProfile": "../../etc/%2e%2e ⛰ 'x'"}, VgpuRequest("../../etc/%2e%2e ⛰ 'x'")),
        ({"vGPUProfile": "x" * 1024}, VgpuRequest("x" * 1024)),
        ({**T4, "customLabel": "a/b\t%s"}, PassthroughRequest((T4_IDS,), "a/b\t%s")),
        ({"deviceId": 1, "vendorId": 65534}, PassthroughRequest((PciIds(65534, 1),))),
    ],
)
def test_what_an_item_requests(item: Any, requested_item: Any) -> None:
    assert read([item]) == (Requested((requested_item,)), ())


HALF, NONE, BOTH = "is missing", "this item has neither", "this item has "


@pytest.mark.parametrize(
    ("item", "path", "words"),
    [
        ({}, "", NONE),
        ({"customLabel": "gold"}, "", NONE),
        ({"deviceId": 7864}, "", f"vendorId {HALF}"),
        ({"vendorId": 4318}, "", f"deviceId {HALF}"),
        ({**T4, **VGPU}, "", f"{BOTH}deviceId + vendorId and vGPUProfile"),
        ({"deviceId": 7864, **VGPU}, "", f"{BOTH}deviceId + vendorId and vGPUProfile"),
        ({**VGPU, "profileName": "other"}, "", f"{BOTH}vGPUProfile and profileName"),
        ({**VGPU, "deviceGroupName": "g"}, "", f"{BOTH}vGPUProfile and deviceGroupName"),
        ({**T4, "allowedDevices": [T4]}, "", f"{BOTH}deviceId + vendorId and allowedDevices"),
    ],
)
def test_an_item_says_in_exactly_one_way_what_it_wants(item: Any, path: str, words: str) -> None:
    requested, (problem,) = read([VGPU, item])
    assert requested.devices == (VgpuRequest("grid_t4-16q"),)
    assert problem.path == f"pciDevices[1]{path}"
    assert problem.kind == "Invalid value"
    assert problem.message.startswith(EITHER)
    assert words in problem.message
    assert problem.value == item


@pytest.mark.parametrize("value", [-1, -32634, 0, 0xFFFF, 0x10000, 10**30, "7864", 1.5, True, [1]])
@pytest.mark.parametrize("name", ["deviceId", "vendorId"])
def test_ids_that_no_device_has(name: str, value: Any) -> None:
    requested, (problem,) = read([{**T4, name: value}])
    assert requested == Requested()
    assert (problem.path, problem.value) == (f"pciDevices[0].{name}", value)
    assert "between 1 and 65534" in problem.message


@pytest.mark.parametrize(
    ("allowed", "path"),
    [
        ([{"vendorId": 4318}], "[0]"),
        ([T4, {**T4, "deviceId": 0}], "[1].deviceId"),
        ([{**T4, "subVendorId": 0x10000}], "[0].subVendorId"),
        ([{**T4, "subDeviceId": -1}], "[0].subDeviceId"),
        ([{**T4, "revisionId": 256}], "[0].revisionId"),
        ([7], "[0]"),
        ([T4] * 129, ""),
        ("all", ""),
    ],
)
def test_allowed_devices_that_cannot_be(allowed: Any, path: str) -> None:
    requested, problems = read([{"allowedDevices": allowed}])
    assert requested == Requested()
    assert paths(problems) == [f"pciDevices[0].allowedDevices{path}"]


@pytest.mark.parametrize("way", [VGPU, {"deviceGroupName": "g"}, {"profileName": "p"}])
def test_a_label_is_for_whole_devices(way: Any) -> None:
    requested, (problem,) = read([{**way, "customLabel": "gold"}])
    assert problem.works
    assert (requested, ()) == read([way])  # it is attached all the same, and must be counted
    assert (problem.path, problem.kind) == ("pciDevices[0].customLabel", "Forbidden")


@pytest.mark.parametrize("name", ["vGPUProfile", "deviceGroupName", "customLabel"])
@pytest.mark.parametrize("value", [7, ["a"], {"a": 1}, True, "x" * 1025, "a\x00b", "\ud800"])
def test_names_that_cannot_be_sent(name: str, value: Any) -> None:
    item = {name: value} if name != "customLabel" else {**T4, name: value}
    requested, (problem,) = read([item])
    assert requested == Requested()
    assert problem.path == f"pciDevices[0].{name}"


def test_two_hundred_devices() -> None:
    requested, (problem,) = read([VGPU] * 200)
    assert len(requested.devices) == 128
    assert problem == Problem("pciDevices", 200, "must have at most 128 items", "Too many")
    assert read([VGPU] * 128)[1] == ()


def test_the_proposals_lists_are_read_like_the_released_one() -> None:
    requested, problems = read(
        None, pcidevices=[T4], vgpudevices=[{"profileName": "grid_t4-16q"}], peer_to_peer=True
    )
    assert problems == ()
    assert requested == Requested(
        (PassthroughRequest((T4_IDS,)), VgpuRequest("grid_t4-16q")), peer_to_peer=True
    )
    assert paths(read([], vgpudevices=[{}])[1]) == ["vgpudevices[0]"]
    assert paths(read((), pcidevices=[T4] * 100, vgpudevices=[VGPU] * 100)[1]) == ["vgpudevices"]


def test_both_forms_at_once() -> None:
    _, problems = read([VGPU], pcidevices=[T4], vgpudevices=[{"profileName": "grid_t4-16q"}])
    assert paths(problems) == ["pcidevices", "vgpudevices"]
    assert {one.kind for one in problems} == {"Forbidden"}


@pytest.mark.parametrize("value", ["", "a", 1, True, {"a": 1}])
def test_what_is_no_list(value: Any) -> None:
    for name in ("pciDevices", "pcidevices", "vgpudevices"):
        assert paths(read_spec({name: value})[1]) == [name]
    assert paths(read([value])[1]) == ["pciDevices[0]"]
    assert read_spec(value) == (Requested(), ())


@pytest.mark.parametrize(
    ("spec", "items"),
    [
        ({}, None),
        ({"pciDevices": [VGPU]}, None),
        ({"pciDevices": [], "vgpudevices": []}, None),
        ({"vgpudevices": [{"profileName": "grid_t4-16q"}]}, [VGPU]),
        ({"pcidevices": [T4], "vgpudevices": [{"profileName": "a"}]}, [T4, {"vGPUProfile": "a"}]),
        ({"pciDevices": [{"profileName": "a"}]}, [{"vGPUProfile": "a"}]),
        ({"pciDevices": [VGPU], "vgpudevices": [VGPU]}, None),
        (
            {"vgpudevices": [{"profileName": "a", "vGPUProfile": "b"}]},
            [{"profileName": "a", "vGPUProfile": "b"}],
        ),
        ({"vgpudevices": 7}, None),
    ],
)
def test_the_released_form_of_a_spec(spec: Any, items: Any) -> None:
    assert released(spec) == items


@given(JSON, JSON, JSON, JSON)
def test_any_json_is_read(items: Any, plain: Any, shared: Any, peers: Any) -> None:
    requested, problems = read(items, pcidevices=plain, vgpudevices=shared, peer_to_peer=peers)
    lists = [one if isinstance(one, list) else [] for one in (items, plain, shared)]
    assert len(requested.devices) <= min(128, sum(map(len, lists)))
    for problem in problems:
        assert problem.path.startswith(("pciDevices", "pcidevices", "vgpudevices", "peerToPeer"))
        assert problem.message
        assert problem.message.isprintable()
    # Nothing is left out without a word.
    if not problems:
        assert len(requested.devices) == sum(map(len, lists))


@given(st.lists(JSON, max_size=3), st.lists(JSON, max_size=3))
def test_the_released_form_requests_the_same(plain: Any, shared: Any) -> None:
    spec = {"pcidevices": plain, "vgpudevices": shared}
    items = released(spec)
    if items is not None:
        after = json.loads(json.dumps(items))
        assert read_spec({"pciDevices": after})[0] == read_spec(spec)[0]
        assert released({"pciDevices": after}) is None
