"""What is made right of VMs, and that nothing else is touched."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from laneway.api import PCIDeviceBar, decode
from laneway.kube.kubevirt import ANNOTATION_ADMITTED, Features, VirtualMachine, mark_of

GPU = "nvidia.com/GA100_A100"
AUDIO = "nvidia.com/AUDIO"
VGPU = "nvidia.com/NVIDIA_A2-2Q"
ADDRESS = "0000:08:00.{}"
GIB = 1 << 30


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [one["name"] for one in entries]


def card(cluster: Any, node: str = "n1", bus: str = "08", group: str = "5") -> tuple[str, str]:
    """A GPU and its audio function, both claimed."""
    return (
        cluster.pci(node, f"0000:{bus}:00.0", GPU, group=group),
        cluster.pci(node, f"0000:{bus}:00.1", AUDIO, group=group, class_id="0403"),
    )


def test_claimed_group_members_come_along(cluster: Any) -> None:
    gpu, audio = card(cluster)
    after = cluster.mutated(cluster.vm(gpu))
    assert cluster.devices(after) == [
        {"name": gpu, "deviceName": GPU},
        {"name": audio, "deviceName": AUDIO},
    ]


def test_members_of_two_devices_of_one_group_come_once(cluster: Any) -> None:
    """Row 80: they were appended twice."""
    gpu, audio = card(cluster)
    third = cluster.pci("n1", "0000:08:00.2", "nvidia.com/USB", group="5", class_id="0c03")
    after = cluster.mutated(cluster.vm(gpu, audio))
    assert names(cluster.devices(after)) == [gpu, audio, third]


def test_devices_without_a_group_have_no_group_members(cluster: Any) -> None:
    """Row 81: all devices without one were taken for one group."""
    gpu = cluster.pci("n1", "0000:08:00.0")
    cluster.pci("n1", "0000:09:00.0", "nvidia.com/OTHER")
    assert names(cluster.devices(cluster.mutated(cluster.vm(gpu)))) == [gpu]


def test_an_unknown_name_does_not_stop_the_others(cluster: Any) -> None:
    """Row 82."""
    gpu, audio = card(cluster)
    after = cluster.mutated(cluster.vm(("free-text", GPU), gpu))
    assert names(cluster.devices(after)) == ["free-text", gpu, audio]


def test_members_come_on_edit_too(cluster: Any) -> None:
    """Row 77: the update was compared with itself."""
    gpu, audio = card(cluster)
    after = cluster.mutated(cluster.vm(gpu), cluster.vm())
    assert names(cluster.devices(after)) == [gpu, audio]


def test_a_vm_whose_devices_stay_as_they_are_stays_as_it_is(cluster: Any) -> None:
    gpu, _ = card(cluster)
    old, new = cluster.vm(gpu), cluster.vm(gpu, strategy="Halted")
    assert cluster.mutate(new, old).operations == ()


def test_a_group_member_that_is_not_claimed_is_reported(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", group="5")
    audio = cluster.pci("n1", "0000:08:00.1", AUDIO, group="5", claimed=None, class_id="0403")
    mutation = cluster.mutate(cluster.vm(gpu))
    assert names(cluster.devices(cluster.mutated(cluster.vm(gpu)))) == [gpu]
    assert f"pcidevice/{audio} is in the IOMMU group of {gpu}" in mutation.warnings[0]
    command = mutation.warnings[1]
    assert all(len(one) <= 256 for one in mutation.warnings)
    claim = json.loads(command.removeprefix("kubectl create -f- <<<'").removesuffix("'"))
    assert claim["kind"] == "PCIDeviceClaim"
    assert claim["metadata"] == {"name": audio}
    assert claim["spec"] == {"address": "0000:08:00.1", "nodeName": "n1"}


def test_a_device_that_its_group_member_brings_back_is_reported(cluster: Any) -> None:
    """Who takes one of a group out must not believe that it is free."""
    gpu, audio = card(cluster)
    stored = cluster.mutated(cluster.vm(gpu))
    for left, gone in ((audio, gpu), (gpu, audio)):
        edit = cluster.vm(left)
        assert names(cluster.devices(cluster.mutated(edit, stored))) == [left, gone]
        (warning,) = cluster.mutate(edit, stored).warnings
        assert warning.startswith(f"pcidevice/{gone} stays in the VM, because {left} of the same")
        assert len(warning) <= 256
    assert cluster.devices(cluster.mutated(cluster.vm(), stored)) == []
    assert cluster.mutate(cluster.vm(), stored).warnings == ()
    # A group member that is new is what was requested.
    assert cluster.mutate(cluster.vm(gpu), cluster.vm()).warnings == ()


def test_bridges_are_no_group_members(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", group="5")
    cluster.pci("n1", "0000:00:01.0", "intel.com/BRIDGE", group="5", claimed=None, class_id="0604")
    mutation = cluster.mutate(cluster.vm(gpu))
    assert names(cluster.devices(cluster.mutated(cluster.vm(gpu)))) == [gpu]
    assert mutation.warnings == ()


def test_a_group_is_that_of_a_node(cluster: Any) -> None:
    gpu, audio = card(cluster)
    card(cluster, "n2")
    assert names(cluster.devices(cluster.mutated(cluster.vm(gpu)))) == [gpu, audio]


def test_a_group_member_goes_by_the_name_that_its_claim_has(cluster: Any) -> None:
    gpu, audio = card(cluster)
    cluster.claim("n1", "0000:08:00.1", f"nvidia.com/{audio}", user="alice")
    assert cluster.devices(cluster.mutated(cluster.vm(gpu)))[1]["deviceName"] == (
        f"nvidia.com/{audio}"
    )


def test_who_only_bears_the_name_of_a_device_brings_no_group_members(cluster: Any) -> None:
    gpu, _ = card(cluster)
    after = cluster.mutated(cluster.vm((gpu, "nvidia.com/OTHER")))
    assert names(cluster.devices(after)) == [gpu]


def test_the_annotation_tells_which_devices_were_looked_at(cluster: Any) -> None:
    gpu, _ = card(cluster)
    after = cluster.mutated(cluster.vm(gpu, annotations={"mine": "stays"}))
    devices = decode(VirtualMachine, after).spec.template.spec.domain.devices
    assert after["metadata"]["annotations"] == {
        "mine": "stays",
        ANNOTATION_ADMITTED: mark_of(devices),
    }


@pytest.mark.parametrize("forged", ["right", "wrong"])
def test_no_user_puts_the_annotation_on_a_vm_that_was_not_judged(cluster: Any, forged: str) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0")
    devices = decode(VirtualMachine, cluster.vm(gpu)).spec.template.spec.domain.devices
    text = mark_of(devices) if forged == "right" else "made up"
    after = cluster.mutated(
        cluster.vm(gpu, annotations={ANNOTATION_ADMITTED: text}), cluster.vm(gpu)
    )
    assert after["metadata"]["annotations"] == {}


def test_the_annotation_goes_with_the_last_device(cluster: Any) -> None:
    gpu, _ = card(cluster)
    with_devices = cluster.mutated(cluster.vm(gpu))
    without = cluster.vm(annotations=with_devices["metadata"]["annotations"])
    assert cluster.mutated(without, with_devices)["metadata"]["annotations"] == {}


def test_a_write_of_the_whole_object_keeps_the_annotation(cluster: Any) -> None:
    gpu, _ = card(cluster)
    old = cluster.mutated(cluster.vm(gpu))
    new = cluster.mutated(cluster.vm(gpu))
    del new["metadata"]["annotations"]
    assert cluster.mutated(new, old)["metadata"]["annotations"] == old["metadata"]["annotations"]


def vendor(cluster: Any, count: int) -> list[dict[str, Any]]:
    return [
        {"name": cluster.vgpu("n1", ADDRESS.format(number)), "deviceName": VGPU}
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_any_number_of_gpus_becomes_host_devices(cluster: Any, count: int) -> None:
    """Row 78: two were removed by positions that had shifted, and the VM was refused."""
    entries = vendor(cluster, count)
    after = cluster.mutated(cluster.vm(gpus=entries))
    assert cluster.devices(after) == entries
    assert "gpus" not in after["spec"]["template"]["spec"]["domain"]["devices"]


def test_converted_gpus_come_after_the_host_devices_that_there_are(cluster: Any) -> None:
    usb = cluster.usb("n1", 11)
    entries = vendor(cluster, 2)
    after = cluster.mutated(cluster.vm(usb, gpus=entries))
    assert names(cluster.devices(after)) == [usb, *names(entries)]


def applied_again(cluster: Any, stored: dict[str, Any], *gpus: dict[str, Any]) -> dict[str, Any]:
    """What kubectl makes of what is stored and a file that has `gpus` only."""
    raw = copy.deepcopy(stored)
    raw["spec"]["template"]["spec"]["domain"]["devices"]["gpus"] = list(gpus)
    after: dict[str, Any] = cluster.mutated(raw, stored)
    assert cluster.judge(after, stored).allowed
    return after


def test_the_same_file_applied_again_changes_nothing(cluster: Any) -> None:
    usb = cluster.usb("n1", 11)
    entries = vendor(cluster, 2)
    stored = cluster.mutated(cluster.vm(usb, gpus=entries))
    assert applied_again(cluster, stored, *entries) == stored
    assert applied_again(cluster, stored, *reversed(entries)) == stored


def test_a_file_with_a_new_entry_before_the_others_adds_that_one(cluster: Any) -> None:
    new, *entries = vendor(cluster, 3)
    stored = cluster.mutated(cluster.vm(gpus=entries))
    after = applied_again(cluster, stored, new, *entries)
    assert cluster.devices(after) == [*entries, new]


def test_the_same_file_applied_again_does_not_look_for_group_members(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:09:00.0", group="5")
    cluster.pci("n1", "0000:09:00.1", AUDIO, group="5", claimed=None)
    entries = vendor(cluster, 1)
    stored = cluster.mutated(cluster.vm(gpu, gpus=entries))
    cluster.claim("n1", "0000:09:00.1", AUDIO, user="alice")
    assert applied_again(cluster, stored, *entries) == stored


def test_a_changed_entry_of_the_file_takes_the_place_of_the_stored_one(cluster: Any) -> None:
    usb = cluster.usb("n1", 11)
    vendor(cluster, 2)
    four = "nvidia.com/NVIDIA_A2-4Q"
    cluster.vgpu("n1", ADDRESS.format(7), "NVIDIA A2-4Q")
    entries = [{"name": name, "deviceName": VGPU} for name in ("one", "two")]
    stored = cluster.mutated(cluster.vm(usb, gpus=entries))
    changed = [{"name": "one", "deviceName": four, "tag": "t"}, entries[1]]
    after = applied_again(cluster, stored, *changed)
    assert cluster.devices(after) == [cluster.entry(usb), *changed]
    # Also where no vGPU of the old profile is left.
    for number in (0, 1):
        cluster.vgpu("n1", ADDRESS.format(number), "NVIDIA A2-4Q")
    both = [entry | {"deviceName": four} for entry in entries]
    assert cluster.devices(applied_again(cluster, stored, *both))[1:] == both


@pytest.mark.parametrize(
    "change", [{"virtualGPUOptions": {"display": {}}}, {"deviceName": "nvidia.com/NVIDIA_A2-4Q"}]
)
def test_an_entry_that_now_belongs_to_gpus_is_no_host_device_any_more(
    cluster: Any, change: dict[str, Any]
) -> None:
    usb = cluster.usb("n1", 11)
    vendor(cluster, 2)
    cluster.vgpu("n1", ADDRESS.format(7), "NVIDIA A2-4Q", framework="mdev")
    entries = [{"name": name, "deviceName": VGPU} for name in ("one", "two")]
    stored = cluster.mutated(cluster.vm(usb, gpus=entries))
    after = applied_again(cluster, stored, entries[0] | change, entries[1])
    # What else is of its resource goes with it: KubeVirt would pass one device twice.
    goes_along = [] if "deviceName" in change else [entries[1]]
    assert cluster.devices(after) == [cluster.entry(usb), *([] if goes_along else [entries[1]])]
    assert cluster.devices(after, "gpus") == [entries[0] | change, *goes_along]


def test_two_entries_of_one_name_are_not_made_one(cluster: Any) -> None:
    (entry,) = vendor(cluster, 1)
    stored = cluster.mutated(cluster.vm(gpus=[entry]))
    raw = cluster.vm(*cluster.devices(stored), gpus=[entry, entry])
    assert cluster.reasons(cluster.mutated(raw, stored), stored) == ["DuplicateDeviceName"]


def test_what_was_never_a_vgpu_gives_no_place_to_one(cluster: Any) -> None:
    """The name is the user's mistake, and a device of his must not vanish by it."""
    usb = cluster.usb("n1", 11)
    vendor(cluster, 1)
    stored = cluster.mutated(cluster.vm(usb))
    raw = cluster.vm(usb, gpus=[{"name": usb, "deviceName": VGPU}])
    after = cluster.mutated(raw, stored)
    assert names(cluster.devices(after)) == [usb, usb]
    assert cluster.reasons(after, stored) == ["DuplicateDeviceName"]


def test_a_tag_is_kept_and_options_keep_an_entry_where_it_is(cluster: Any) -> None:
    """Row 79: both were dropped."""
    first, second, third, fourth = vendor(cluster, 4)
    first["tag"] = "one"
    second["virtualGPUOptions"] = {"display": {"enabled": True}}
    third = {"name": "dra", "claimName": "c", "requestName": "r"}
    gpus = [first, second, third, fourth]
    after = cluster.mutated(cluster.vm(gpus=gpus))
    assert cluster.devices(after) == []
    assert cluster.devices(after, "gpus") == gpus
    after = cluster.mutated(cluster.vm(gpus=[first, third, fourth]))
    assert cluster.devices(after) == [first, fourth]
    assert cluster.devices(after, "gpus") == [third]


def test_a_vgpu_by_resource_alone_is_converted_as_well(cluster: Any) -> None:
    vendor(cluster, 1)
    entry = {"name": "provisioned", "deviceName": VGPU}
    assert cluster.devices(cluster.mutated(cluster.vm(gpus=[entry]))) == [entry]


def test_a_profile_that_some_node_mediates_stays(cluster: Any) -> None:
    vendor(cluster, 1)
    cluster.vgpu("n2", "0000:08:00.0", framework="mdev")
    entry = {"name": "provisioned", "deviceName": VGPU}
    assert cluster.devices(cluster.mutated(cluster.vm(gpus=[entry])), "gpus") == [entry]


@pytest.mark.parametrize("then", ["mdev", "", "what comes next"])
def test_how_a_profile_is_made_is_as_of_now(cluster: Any, then: str) -> None:
    entry = {"name": "provisioned", "deviceName": VGPU}
    cluster.vgpu("n1", "0000:08:00.0")
    cluster.vgpu("n2", "0000:08:00.0")
    assert cluster.devices(cluster.mutated(cluster.vm(gpus=[entry]))) == [entry]
    cluster.vgpu("n2", "0000:08:00.0", framework=then)
    assert cluster.devices(cluster.mutated(cluster.vm(gpus=[entry])), "gpus") == [entry]
    cluster.vgpu("n2", "0000:08:00.0", enabled=False)
    assert cluster.devices(cluster.mutated(cluster.vm(gpus=[entry]))) == [entry]


def test_a_whole_gpu_stays_where_it_is(cluster: Any) -> None:
    gpu, audio = card(cluster)
    after = cluster.mutated(cluster.vm(gpus=[{"name": gpu, "deviceName": GPU}]))
    assert names(cluster.devices(after, "gpus")) == [gpu]
    assert names(cluster.devices(after)) == [audio]


def test_a_resource_goes_one_way(cluster: Any) -> None:
    """KubeVirt draws the devices of either list from the first one on."""
    first, second = vendor(cluster, 2)
    said = second | {"virtualGPUOptions": {"display": {"ramFB": {"enabled": False}}}}
    gpus = cluster.devices(cluster.mutated(cluster.vm(gpus=[first, said])), "gpus")
    assert gpus == [first, said]
    explicit = cluster.mutated(cluster.vm(first, gpus=[said]))
    assert cluster.devices(explicit) == []
    assert cluster.devices(explicit, "gpus") == [said, first]
    plain = cluster.mutated(cluster.vm(first, gpus=[second]))
    assert cluster.devices(plain) == [first, second]
    whole = [cluster.entry(cluster.pci("n1", f"0000:0{bus}:00.0", GPU)) for bus in (1, 2)]
    after = cluster.mutated(cluster.vm(whole[0], gpus=[whole[1]]))
    assert cluster.devices(after) == whole


def test_a_usb_device_goes_where_kubevirt_looks_for_it(cluster: Any) -> None:
    usb = cluster.entry(cluster.usb("n1", 11))
    assert cluster.devices(cluster.mutated(cluster.vm(gpus=[usb]))) == [usb]
    said = usb | {"virtualGPUOptions": {}}
    assert cluster.reasons(cluster.mutated(cluster.vm(gpus=[said]))) == ["UsbDeviceInGpus"]


def test_what_is_filled_in_later_finds_the_lists_as_they_were_written(cluster: Any) -> None:
    """An instancetype with gpus conflicts with those of the VM, and KubeVirt says so."""
    entries = vendor(cluster, 2)
    for part in ("instancetype", "preference"):
        raw = cluster.vm(gpus=entries)
        raw["spec"][part] = {"name": "u1"}
        assert cluster.devices(cluster.mutated(raw), "gpus") == entries


def test_a_stored_vm_that_cannot_start_is_put_right_when_it_is_written(cluster: Any) -> None:
    first, second = vendor(cluster, 2)
    stored = cluster.vm(first, gpus=[second], strategy="Halted")
    started = cluster.vm(first, gpus=[second])
    assert cluster.reasons(started, stored) == ["ResourceInTwoLists"]
    assert cluster.devices(cluster.mutated(started, stored)) == [first, second]


def reserved(raw: dict[str, Any]) -> Any:
    return raw["spec"]["template"]["spec"]["domain"].get("memory", {}).get("reservedOverhead")


def test_large_devices_take_memory_for_their_tables(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", bars=[16 << 20, 128 * GIB, 32 << 20])
    after = cluster.mutated(cluster.vm(gpu, memory={"guest": "8Gi"}))
    assert reserved(after) == {"addedOverhead": "769Mi"}
    assert after["spec"]["template"]["spec"]["domain"]["memory"]["guest"] == "8Gi"


def test_devices_of_a_pool_take_as_much_as_one_of_them(cluster: Any) -> None:
    for bus in ("08", "09", "0a"):
        cluster.pci("n1", f"0000:{bus}:00.0", bars=[64 * GIB])
    after = cluster.mutated(cluster.vm(("a", GPU), ("b", GPU), ("c", GPU)))
    assert reserved(after) == {"addedOverhead": "1152Mi"}


def test_what_is_no_memory_of_the_device_takes_nothing(cluster: Any) -> None:
    port = PCIDeviceBar(index=0, size=256 * GIB, io=True)
    gpu = cluster.pci("n1", "0000:08:00.0")
    there = cluster.world.pci_devices.get(gpu)
    status = msgspec.structs.replace(there.status, bars=[port])
    cluster.world.pci_devices.put(msgspec.structs.replace(there, status=status))
    assert reserved(cluster.mutated(cluster.vm(gpu))) is None


def test_a_mediated_device_has_not_the_ranges_of_its_function(cluster: Any) -> None:
    vgpu = cluster.vgpu("n1", ADDRESS.format(4), framework="mdev", bars=[128 * GIB])
    raw = cluster.vm(gpus=[{"name": vgpu, "deviceName": VGPU}])
    assert reserved(cluster.mutated(raw)) is None


def test_small_devices_take_nothing_worth_counting(cluster: Any) -> None:
    nic = cluster.pci("n1", "0000:08:00.0", bars=[64 << 10])
    assert reserved(cluster.mutated(cluster.vm(nic))) is None


def test_what_the_user_reserved_is_left_alone(cluster: Any) -> None:
    gpu = cluster.pci("n1", "0000:08:00.0", bars=[128 * GIB])
    mine = {"reservedOverhead": {"addedOverhead": "1Mi", "memLock": "Required"}}
    raw = cluster.vm(gpu, memory=mine)
    assert reserved(cluster.mutated(raw)) == mine["reservedOverhead"]
    assert reserved(cluster.mutated(raw, cluster.vm())) == mine["reservedOverhead"]


def test_what_we_reserved_follows_the_devices(cluster: Any) -> None:
    one = cluster.pci("n1", "0000:08:00.0", bars=[128 * GIB])
    two = cluster.pci("n1", "0000:09:00.0", bars=[128 * GIB])
    old = cluster.mutated(cluster.vm(one))
    more = cluster.vm(one, two, memory={"reservedOverhead": reserved(old)})
    assert reserved(cluster.mutated(more, old)) == {"addedOverhead": "1536Mi"}
    none = cluster.vm(memory={"reservedOverhead": reserved(old)})
    assert reserved(cluster.mutated(none, old)) is None


def test_a_kubevirt_that_refuses_the_field_is_spared_it(cluster: Any) -> None:
    gpus = [cluster.pci("n1", f"0000:0{bus}:00.0", bars=[128 * GIB]) for bus in (7, 8)]
    one = cluster.mutate(cluster.vm(gpus[0]), features=Features())
    assert one.warnings == ()
    two = cluster.mutate(cluster.vm(*gpus), features=Features())
    assert "1536Mi" in two.warnings[0]
    assert not any("memory" in operation["path"] for operation in two.operations)


def test_nulls_where_go_writes_them(cluster: Any) -> None:
    entries = vendor(cluster, 1)
    entries[0]["tag"] = None
    raw = cluster.vm(gpus=entries)
    raw["spec"]["template"]["spec"]["domain"]["devices"]["hostDevices"] = None
    raw["metadata"]["annotations"] = None
    after = cluster.mutated(raw)
    assert cluster.devices(after) == [{"name": entries[0]["name"], "deviceName": VGPU}]
    assert ANNOTATION_ADMITTED in after["metadata"]["annotations"]


def test_a_vm_that_is_being_deleted_is_left_alone(cluster: Any) -> None:
    gpu, _ = card(cluster)
    raw = cluster.vm(gpu)
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert cluster.mutate(raw).operations == ()


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"spec": None},
        {"spec": {"template": {"spec": {"domain": {"devices": {"hostDevices": "x"}}}}}},
        {"metadata": {"annotations": {"a": 1}}},
    ],
)
def test_what_cannot_be_read_is_left_alone(cluster: Any, raw: dict[str, Any]) -> None:
    assert cluster.mutate(raw).operations == ()


def test_a_vm_that_could_not_be_read_before_is_as_good_as_new(cluster: Any) -> None:
    entries = vendor(cluster, 1)
    odd = cluster.vm()
    odd["spec"]["template"]["spec"]["domain"]["devices"]["hostDevices"] = 7
    assert cluster.devices(cluster.mutated(cluster.vm(gpus=entries), odd)) == entries
