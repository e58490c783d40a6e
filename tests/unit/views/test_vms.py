"""What a VM requests and what it has: the devices' own objects count, and not a record."""

from __future__ import annotations

import json
from collections.abc import Mapping

from laneway.api import ObjectMeta
from laneway.controllers.ledger.demands import of_vms
from laneway.core import keys
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, DeviceFact, Facts
from laneway.core.ledger.ledger import Ledger
from laneway.kube.kubevirt import (
    Cpu,
    DeviceRequest,
    Devices,
    Domain,
    DomainResources,
    InstanceSpec,
    InstanceStatus,
    Memory,
    Template,
    VirtualMachine,
    VirtualMachineInstance,
    VirtualMachineSpec,
)
from laneway.views.explain.vm import device_lines
from laneway.views.vms import Vm, cpu_of, is_exact, lines, memory_of, outdated_record

VGPU, NIC = "nvidia.com/NVIDIA_A2-4Q", "intel.com/I350"
OWNER = Consumer(ConsumerKind.VM, "default", "vm")


def spec(*requests: tuple[str, str]) -> InstanceSpec:
    devices = Devices(host_devices=[DeviceRequest(name=n, device_name=r) for n, r in requests])
    return InstanceSpec(domain=Domain(devices=devices))


def vm(requests: InstanceSpec, record: Mapping[str, object] | None = None) -> VirtualMachine:
    annotations = {keys.ANNOTATION_ALLOCATION: json.dumps(record)} if record else {}
    return VirtualMachine(
        metadata=ObjectMeta(namespace="default", name="vm", annotations=annotations),
        spec=VirtualMachineSpec(template=Template(spec=requests)),
    )


def instance(requests: InstanceSpec) -> VirtualMachineInstance:
    return VirtualMachineInstance(
        metadata=ObjectMeta(namespace="default", name="vm"),
        spec=requests,
        status=InstanceStatus(phase="Running", node_name="n1"),
    )


def known(found: Vm, *devices: DeviceFact) -> Ledger:
    vms = [found.vm] if found.vm else []
    instances = [found.instance] if found.instance else []
    return build(Facts(devices, tuple(of_vms(vms, instances, ()))))


def test_spec_and_devices_stand_side_by_side_whatever_the_entries_are_called() -> None:
    # Rancher calls each device `provisioned`.
    asked = spec(("provisioned", VGPU), ("nic", NIC))
    found = Vm("default", "vm", vm(asked), instance(asked))
    ledger = known(
        found,
        DeviceFact("n1", VGPU, "n1-a", owner=OWNER),
        DeviceFact("n1", VGPU, "n1-b"),
        DeviceFact("n1", NIC, "n1-c"),
    )
    vgpu, nic = lines(found, ledger)
    assert vgpu.entries == ("provisioned",)
    assert [(one.name, one.how) for one in vgpu.has] == [("n1-a", "held")]
    assert vgpu.held == 1
    # The kubelet has not said which network card it is, so none is shown as if it had.
    assert (nic.running, nic.has) == (1, ())
    assert list(device_lines(ledger, OWNER)) == [f"held: n1-a ({VGPU}) on n1"]


def test_a_device_added_while_it_runs_waits_for_a_restart() -> None:
    before, after = spec(("a", VGPU)), spec(("a", VGPU), ("b", VGPU))
    found = Vm("default", "vm", vm(after), instance(before))
    [line] = lines(found, known(found, DeviceFact("n1", VGPU, "n1-a", owner=OWNER)))
    assert line.waits_for_restart
    assert (len(line.entries), line.running, line.held) == (2, 1, 1)


def test_a_stale_record_says_nothing_about_a_vm_that_runs() -> None:
    asked = spec(("a", VGPU))
    record = {"hostdevices": {VGPU: ["n1-a", "n9-gone"]}}
    found = Vm("default", "vm", vm(asked, record), instance(asked))
    ledger = known(
        found, DeviceFact("n1", VGPU, "n1-a"), DeviceFact("n1", VGPU, "n1-b", owner=OWNER)
    )
    [line] = lines(found, ledger)
    assert [one.name for one in line.has] == ["n1-b"]
    assert outdated_record(found, ledger) == ("n1-a", "n9-gone")


def test_a_stopped_vm_has_what_is_kept_for_it() -> None:
    found = Vm("default", "vm", vm(spec(("a", VGPU)), {"hostdevices": {VGPU: ["n1-b"]}}), None)
    ledger = known(found, DeviceFact("n1", VGPU, "n1-a"), DeviceFact("n1", VGPU, "n1-b"))
    [line] = lines(found, ledger)
    assert [(one.name, one.how) for one in line.has] == [("n1-b", "reserved")]
    assert outdated_record(found, ledger) == ()


def test_a_resource_of_one_device_is_exact() -> None:
    assert is_exact("intel.com/node1-000004001", "node1-000004001")
    assert is_exact("kubevirt.io/node1-0781-5583-001004", "node1-0781-5583-001004")
    assert not is_exact(VGPU, "node1-000008004")


def test_cpu_and_memory_are_what_kubevirt_requests() -> None:
    guest = InstanceSpec(domain=Domain(cpu=Cpu(cores=2, sockets=3), memory=Memory(guest="4Gi")))
    assert (cpu_of(guest), memory_of(guest)) == (600, 4 * 2**30)
    said = DomainResources(requests={"cpu": "1500m", "memory": "1Gi"})
    asked = InstanceSpec(domain=Domain(memory=Memory(guest="4Gi"), resources=said))
    assert (cpu_of(asked), memory_of(asked)) == (1500, 2**30)
    assert memory_of(InstanceSpec(domain=Domain(memory=Memory(guest="much")))) == 0
