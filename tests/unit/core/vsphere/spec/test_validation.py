"""What cannot be in the spec of a machine: every rule of CAPV's, and those that it lacks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vsphere.spec.immutability import changed
from laneway.core.vsphere.spec.validation import (
    MACHINE,
    TEMPLATE,
    VM,
    created,
    hardware_version,
    problems,
    updated,
)

KINDS = (MACHINE, TEMPLATE, VM)
BASE = {MACHINE: "spec", TEMPLATE: "spec.template.spec", VM: "spec"}
T4 = {"deviceId": 7864, "vendorId": 4318}
VGPU = {"vGPUProfile": "grid_t4-16q"}
GROUP = {"deviceGroupName": "Nvidia:4@a100"}
EITHER = "should have either deviceId + vendorId or vGPUProfile set"


def found(kind: str, spec: Any, name: str = "m") -> list[tuple[str, str, str]]:
    """Path below the spec, kind of error, message."""
    base = BASE[kind]
    return [
        (one.path.removeprefix(f"{base}."), one.kind, one.message)
        for one in created(kind, name, spec, base)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"pciDevices": [VGPU, {}]}, "pciDevices[1]", EITHER),
        ({"pciDevices": [{"deviceId": 7864}]}, "pciDevices[0]", EITHER),
        ({"pciDevices": [{**T4, **VGPU}]}, "pciDevices[0]", EITHER),
        ({"pciDevices": [{**T4, "deviceId": 65536}]}, "pciDevices[0].deviceId", "should be a PCI"),
        ({"pciDevices": [VGPU] * 200}, "pciDevices", "must have at most 128 items"),
        (
            {"pciDevices": [{**VGPU, "customLabel": "gold"}]},
            "pciDevices[0].customLabel",
            "is for whole devices",
        ),
        ({"pciDevices": [VGPU], "vgpudevices": [VGPU]}, "vgpudevices", "cannot be used together"),
        (
            {"pciDevices": [T4], "hardwareVersion": "vmx-16"},
            "hardwareVersion",
            "should be vmx-17 or newer",
        ),
        (
            {"pciDevices": [{"allowedDevices": [T4]}], "hardwareVersion": "vmx-9"},
            "hardwareVersion",
            "should be vmx-17 or newer",
        ),
        (
            {"pcidevices": [T4], "hardwareVersion": "vmx-13"},
            "hardwareVersion",
            "should be vmx-17 or newer",
        ),
        ({"pciDevices": [T4], "nestedHV": True}, "nestedHV", "should not be set"),
        ({"pciDevices": [VGPU], "nestedHV": True}, "nestedHV", "should not be set"),
        ({"pciDevices": [T4], "peerToPeer": True}, "peerToPeer", "requires two or more devices"),
        ({"peerToPeer": True}, "peerToPeer", "requires two or more devices"),
        ({"peerToPeer": "yes"}, "peerToPeer", "should be true or false"),
        (
            {"powerOffMode": "soft", "guestSoftPowerOffTimeoutSeconds": 60},
            "guestSoftPowerOffTimeoutSeconds",
            "should not be set in templates unless the powerOffMode is trySoft",
        ),
    ],
)
def test_what_no_machine_can_be(kind: str, spec: Any, path: str, message: str) -> None:
    [(where, _, words)] = found(kind, spec)
    assert where == path
    assert words.startswith(message)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"pciDevices": [T4, {**T4, "customLabel": "gold"}, VGPU, GROUP]},
        {"pciDevices": [T4], "hardwareVersion": "vmx-17"},
        {"pciDevices": [T4], "hardwareVersion": ""},
        {"pciDevices": [VGPU], "hardwareVersion": "vmx-13"},
        {"pciDevices": [T4, T4], "peerToPeer": True},
        {"pciDevices": [GROUP], "peerToPeer": True},
        {"pciDevices": [{"vGPUProfile": "a/b%2f../c"}]},
        {"nestedHV": True},
        {"powerOffMode": "trySoft", "guestSoftPowerOffTimeoutSeconds": 60},
        {"powerOffMode": "hard", "guestSoftPowerOffTimeoutSeconds": 0},
        {"network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]}},
    ],
)
def test_what_a_machine_can_be(kind: str, spec: Any) -> None:
    assert found(kind, spec) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["17", "vmx-0", "vmx-017", "vmx-170", "VMX-17", "vmx-17 ", "vmx-"])
def test_hardware_versions_that_are_none(kind: str, text: str) -> None:
    words = "should be a valid VM hardware version, example vmx-17"
    assert found(kind, {"hardwareVersion": text}) == [("hardwareVersion", "Invalid value", words)]
    assert hardware_version(text) is None
    assert hardware_version("vmx-19") == 19


@pytest.mark.parametrize("kind", [MACHINE, VM])
@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("10.0.0.1/24", True),
        ("fe80::1/64", True),
        ("10.0.0.1", False),
        ("10.0.0.1/255.0.0.0", False),
        ("10.0.0.1/33", False),
        ("10.0.0.1/+4", False),
        ("fe80::1%eth0/64", False),
        ("host/24", False),
        ("", False),
        (7, False),
    ],
)
def test_addresses(kind: str, text: Any, good: bool) -> None:
    spec = {"network": {"devices": [{}, {"ipAddrs": ["10.0.0.9/8", text]}]}}
    words = "ip addresses should be in the CIDR format"
    wrong = [("network.devices[1].ipAddrs[1]", "Invalid value", words)]
    assert found(kind, spec) == ([] if good else wrong)


def test_what_is_of_one_machine_is_not_of_templates() -> None:
    spec = {"providerID": "vsphere://1", "network": {"devices": [{}, {"ipAddrs": ["10.0.0.1/24"]}]}}
    words = "cannot be set in templates"
    assert found(TEMPLATE, spec) == [
        ("providerID", "Forbidden", words),
        ("network.devices[1].ipAddrs", "Forbidden", words),
    ]
    assert found(MACHINE, spec) == []


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ .machine.name }}", ""),
        ('{{ .machine.name | trunc -5 | trimSuffix "e" }}-gpu', ""),
        ("{{ if .machine.name }}a{{ end }}", ""),  # Go knows it; so CAPV says what becomes of it.
        ("{{ .machine.name", "invalid VSphereVM name template: "),
        ("{{ (.machine.name }}", "invalid VSphereVM name template: ( without )"),
        ("{{ .machine.name | ) }}", "invalid VSphereVM name template: "),
        ("{{ .cluster.name }}", "invalid VSphereVM name template: "),
        ("{{ upper .machine.name }}", "invalid VSphereVM name template: "),
        ("{{ .machine.name }}_GPU", "invalid VSphereVM name template, generated name is not"),
        ("../{{ .machine.name }}", "invalid VSphereVM name template, generated name is not"),
    ],
)
def test_templates_of_names(template: str, words: str) -> None:
    spec = {"naming": {"template": template}}
    reported = [(path, message[: len(words)]) for path, _, message in found(TEMPLATE, spec)]
    assert reported == ([("naming.template", words)] if words else [])
    assert found(MACHINE, spec) == []


def test_windows_has_short_names() -> None:
    name = "sixteen-letters-"
    assert [one.path for one in created(VM, name, {"os": "Windows"}, "spec")] == ["metadata.name"]
    assert created(VM, name[:15], {"os": "Windows"}, "spec") == ()
    assert created(VM, name, {"os": "Linux"}, "spec") == ()
    assert created(MACHINE, name, {"os": "Windows"}, "spec") == ()


BEFORE = {
    "template": "ubuntu",
    "numCPUs": 2,
    "pciDevices": [VGPU],
    "network": {"devices": [{"networkName": "a"}], "preferredAPIServerCidr": "10.0.0.0/8"},
}
FROZEN = {
    MACHINE: "cannot be modified",
    TEMPLATE: "VSphereMachineTemplate spec.template.spec field is immutable. Please create a new "
    "resource instead.",
    VM: "cannot be modified",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        {"numCPUs": 4},
        {"template": ""},
        {"pciDevices": [VGPU, VGPU]},
        {"pciDevices": None},
        {"vgpudevices": [VGPU]},
        {"peerToPeer": True},
        {"customVMXKeys": {"a": "b"}},
        {"network": {"devices": [{"networkName": "a"}]}},
    ],
)
def test_what_never_changes(kind: str, change: Any) -> None:
    base = BASE[kind]
    [problem] = changed(kind, BEFORE, {**BEFORE, **change}, base)
    assert problem.path == base
    assert problem.message.startswith(FROZEN[kind])
    assert next(iter(change)) in f"{problem.value} {problem.message}"


CARDS = {"network": {**BEFORE["network"], "devices": []}}  # type: ignore[dict-item]  # of a mixed dict


@pytest.mark.parametrize(
    ("change", "free"),
    [
        ({"providerID": "vsphere://1"}, {MACHINE}),
        ({"powerOffMode": "soft"}, {MACHINE, VM}),
        ({"guestSoftPowerOffTimeoutSeconds": 9}, {MACHINE, VM}),
        (CARDS, {MACHINE, VM}),
        ({"bootstrapRef": {"name": "b"}}, {VM}),
        ({"thumbprint": "AA"}, {VM}),
        ({"os": "Windows"}, {VM}),
        ({"biosUUID": "1"}, {VM}),
        # What says the same in other words is no change.
        ({"storagePolicyName": "", "nestedHV": False, "tagIDs": [], "resources": {}}, set(KINDS)),
        ({"pciDevices": None, "vgpudevices": [{"profileName": "grid_t4-16q"}]}, set(KINDS)),
        ({"datacenter": "*"}, {MACHINE}),
    ],
)
def test_what_may_change(change: Any, free: set[str]) -> None:
    after = {**BEFORE, **change}
    assert {kind for kind in KINDS if not changed(kind, BEFORE, after, BASE[kind])} == free


@pytest.mark.parametrize("name", ["os", "biosUUID"])
def test_what_is_set_once(name: str) -> None:
    once = {**BEFORE, name: "one"}
    assert changed(VM, once, {**once, name: "two"}, "spec")
    assert changed(VM, once, BEFORE, "spec")


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_is_judged_by_what_is_new_about_it(kind: str) -> None:
    odd = {
        "pciDevices": [{}],
        "hardwareVersion": "vmx-x",
        "guestSoftPowerOffTimeoutSeconds": 9,
        "network": {"devices": [{"ipAddrs": ["nonsense"]}]},
        "naming": {"template": "{{"},
    }
    assert created(kind, "m", odd, BASE[kind])
    assert updated(kind, odd, odd, BASE[kind]) == ()
    assert updated(kind, odd, {**odd, "providerID": "x"}, BASE[kind]) == ()
    worse = {**odd, "powerOffMode": "hard"}
    assert bool(updated(kind, odd, worse, BASE[kind])) is (kind != TEMPLATE)
    network = {"network": {"devices": [{"ipAddrs": ["nonsense", "too"]}]}}
    assert bool(updated(kind, odd, {**odd, **network}, BASE[kind])) is (kind == MACHINE)
    names = {"naming": {"template": "{{ x }}"}}
    assert bool(updated(kind, odd, {**odd, **names}, BASE[kind])) is (kind == TEMPLATE)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
SPECS = JSON | st.dictionaries(
    st.sampled_from(
        [
            *("pciDevices", "pcidevices", "vgpudevices", "peerToPeer", "hardwareVersion"),
            *("nestedHV", "network", "naming", "os", "powerOffMode", "providerID", "biosUUID"),
            *("guestSoftPowerOffTimeoutSeconds", "datacenter", "thumbprint"),
        ]
    ),
    JSON
    | st.builds(lambda one: {"devices": one, "template": one}, JSON)
    | st.builds(lambda one: {"devices": [{"ipAddrs": one}], "template": "{{" + str(one)}, JSON),
)


@pytest.mark.parametrize("kind", KINDS)
@given(old=SPECS, new=SPECS)
def test_any_json_is_judged(kind: str, old: Any, new: Any) -> None:
    base = BASE[kind]
    reported = [
        *problems(new, base),
        *created(kind, "m", new, base),
        *updated(kind, old, new, base),
        *changed(kind, old, new, base),
    ]
    for one in reported:
        assert one.path.startswith(base)
        assert one.message.isprintable()
    assert updated(kind, new, new, base) == ()
    assert changed(kind, new, new, base) == ()
