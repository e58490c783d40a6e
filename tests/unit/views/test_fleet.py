"""A cluster as a fleet: who has what is the ledger's word, and nothing more gets into the file."""

from __future__ import annotations

from laneway.api import (
    MigConfiguration,
    MigConfigurationSpec,
    MigConfigurationStatus,
    MigProfileStatus,
    ObjectMeta,
    PCIDevice,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
)
from laneway.core.fleet.anonymous import anonymous
from laneway.core.fleet.changes import AddVms
from laneway.core.fleet.inventory_file import read, write
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.what_if import what_if
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile
from laneway.core.ledger.facts import (
    Consumer,
    ConsumerKind,
    Demand,
    DeviceFact,
    Facts,
    NodeFact,
    Phase,
)
from laneway.views.fleet import observed
from laneway.views.gpus import assemble

_UUID = "GPU-3c9a8f2e-secret"
_RESOURCE = "nvidia.com/NVIDIA_L40S-24Q"


def _vgpu(number: int) -> VGPUDevice:
    return VGPUDevice(
        metadata=ObjectMeta(name=f"n1-00000100{number}"),
        spec=VGPUDeviceSpec(
            address=f"0000:01:00.{number}",
            node_name="n1",
            parent_gpu_device_address="0000:01:00.0",
        ),
        status=VGPUDeviceStatus(
            vgpu_status="vGPUConfigured" if number < 3 else "",
            uuid=_UUID,
            configure_vgpu_type_name="NVIDIA L40S-24Q" if number < 3 else "",
            framework="vendor-vfio",
        ),
    )


def _fleet() -> Fleet:
    device = SRIOVGPUDevice(
        metadata=ObjectMeta(name="n1-000001000"),
        spec=SRIOVGPUDeviceSpec(address="0000:01:00.0", node_name="n1"),
        status=SRIOVGPUDeviceStatus(
            mode="SameSize", gpu_uuid=_UUID, driver_version="580.65.06", ecc_mode="Enabled"
        ),
    )
    card = PCIDevice(
        metadata=ObjectMeta(name="n1-000001000"), status=PCIDeviceStatus(device_id="26b9")
    )
    stopped = Consumer(ConsumerKind.VM, "team-a", "desk")
    facts = Facts(
        devices=tuple(DeviceFact("n1", _RESOURCE, f"n1-00000100{n}") for n in (1, 2)),
        demands=(
            Demand(stopped, Phase.STOPPED, {_RESOURCE: 1}, last=("n1-000001002",)),
            Demand(Consumer(ConsumerKind.POD, "team-a", "p"), Phase.PENDING, {_RESOURCE: 3}),
            Demand(Consumer(ConsumerKind.VM, "team-a", "live"), Phase.RUNNING, {}, migratable=True),
        ),
        nodes=(NodeFact("n1", {"zone": "cellar"}),),
    )
    return observed(facts, assemble([device], map(_vgpu, (1, 2, 3)), cards=[card]))


def test_a_stopped_vm_keeps_what_the_ledger_reserves() -> None:
    fleet = _fleet()
    (gpu,) = fleet.gpus
    assert [(one.name, one.holder) for one in gpu.vgpus] == [
        ("n1-000001001", ""),
        ("n1-000001002", "team-a/desk"),
    ]
    found = what_if(fleet, [AddVms(requests={_RESOURCE: 1}, count=2)])
    assert [one.vm for one in found.placed] == ["new-1"]
    assert [one.vm for one in found.waiting] == ["pod team-a/p"]


def test_what_decides_a_migration_is_taken_over_and_nothing_is_guessed() -> None:
    (gpu,) = _fleet().gpus
    assert (gpu.driver, gpu.ecc) == ("580.65.06", True)
    vms = {vm.name: vm.migratable for vm in _fleet().vms}
    assert vms == {"team-a/desk": None, "pod team-a/p": None, "team-a/live": True}
    silent = assemble([SRIOVGPUDevice(metadata=ObjectMeta(name="n2"))], ())
    (other,) = observed(Facts(), silent).gpus
    assert (other.driver, other.ecc, other.instances) == ("", None, ())


def test_gpu_instances_are_where_their_object_says() -> None:
    known = {"id": 9, "total": 2, "starts": [0, 4], "size": 4}
    profiles = [
        MigProfileStatus(name="MIG 3g.20gb", vgpu_ids=["2", "1"], placements=[0, 4], **known),
        MigProfileStatus(name="MIG 1g.5gb", id=19, total=7, vgpu_ids=["7"]),
    ]
    device = SRIOVGPUDevice(
        metadata=ObjectMeta(name="n1"), spec=SRIOVGPUDeviceSpec(address="a", node_name="n1")
    )
    mig = MigConfiguration(
        spec=MigConfigurationSpec(gpu_address="a", node_name="n1"),
        status=MigConfigurationStatus(profile_status=profiles),
    )
    (gpu,) = observed(Facts(), assemble([device], (), migs=[mig])).gpus
    assert gpu.instances == (
        GpuInstance(2, "3g.20gb", 9, 0, 4),
        GpuInstance(1, "3g.20gb", 9, 4, 4),
    )
    assert gpu.instance_profiles == (GpuInstanceProfile("3g.20gb", 9, 2, (0, 4), 4),)


def test_the_file_has_no_uuid_and_is_read_again() -> None:
    text = write(_fleet())
    assert _UUID not in text
    assert read(text.encode()) == _fleet()


def test_an_anonymous_file_names_no_one_and_has_the_same_answers() -> None:
    fleet = anonymous(_fleet())
    text = write(fleet)
    assert not [word for word in ("team-a", "desk", "n1", "cellar", "zone") if word in text]
    assert read(text.encode()) == fleet
    asked = [AddVms(requests={_RESOURCE: 1}, count=2)]
    assert what_if(fleet, asked).left == what_if(_fleet(), asked).left


def test_pods_with_gpu_instances_are_in_the_fleet_with_all_that_they_request() -> None:
    pod = Consumer(ConsumerKind.POD, "team-a", "trains")
    instance = "nvidia.com/mig-1g.5gb"
    facts = Facts(demands=(Demand(pod, Phase.RUNNING, {_RESOURCE: 1}, node="n1"),))
    both = Demand(pod, Phase.RUNNING, {instance: 2}, node="n1")
    [found] = observed(facts, (), containers=(both,)).vms
    assert (found.name, found.node) == ("pod team-a/trains", "n1")
    assert found.requests == {_RESOURCE: 1, instance: 2}
