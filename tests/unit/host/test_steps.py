"""Plans carried out on a simulated host: done, undone, refused, abandoned."""

from __future__ import annotations

import errno
import threading

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, Plan, RemoveMdev, SetVgpuType
from laneway.host.scan import scan
from laneway.host.steps import StepError, execute
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

UUID = "5ea6f8a6-3b1c-5a39-9e5e-0d0f0c0b0a09"


@pytest.fixture
def a2() -> SimulatedHost:
    return build(parse_spec("a2"), "node1")


@pytest.fixture
def l40s() -> SimulatedHost:
    return build(parse_spec("l40s"), "node1")


def vgpus(host: SimulatedHost) -> dict[PciAddress, str]:
    """Function to the profile that it carries."""
    return {
        vgpu.address: vgpu.configured.type_name
        for vgpu in scan(host).vgpus
        if vgpu.configured is not None
    }


def creation(host: SimulatedHost, profile: str) -> CreateMdev:
    vgpu = scan(host).vgpus[0]
    kind = next(kind for kind in vgpu.creatable if kind.name == profile)
    return CreateMdev(vgpu.address, kind.id, kind.name, UUID)


async def test_an_mdev_is_created_and_removed(a2: SimulatedHost) -> None:
    create = creation(a2, "NVIDIA A2-4Q")

    await execute(a2, Plan((create,)))
    created = vgpus(a2)
    await execute(a2, Plan((RemoveMdev(create.function, create.type_id, create.profile, UUID),)))

    assert created == {create.function: "NVIDIA A2-4Q"}
    assert vgpus(a2) == {}


async def test_a_vendor_vgpu_is_configured_and_cleared(l40s: SimulatedHost) -> None:
    vgpu = scan(l40s).vgpus[0]
    kind = vgpu.creatable[0]

    await execute(l40s, Plan((SetVgpuType(vgpu.address, kind.id, "0", kind.name),)))
    configured = vgpus(l40s)
    await execute(l40s, Plan((SetVgpuType(vgpu.address, "0", kind.id, kind.name),)))

    assert configured == {vgpu.address: kind.name}
    assert vgpus(l40s) == {}


async def test_what_was_done_is_undone_when_a_later_step_is_refused(a2: SimulatedHost) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    same_uuid_again = CreateMdev(
        scan(a2).vgpus[1].address, create.type_id, create.profile, create.uuid
    )

    with pytest.raises(StepError) as raised:
        await execute(a2, Plan((create, same_uuid_again)))

    asked = f"/sys/bus/pci/devices/{same_uuid_again.function}/mdev_supported_types/"
    assert raised.value.refusal.error.startswith(asked)
    assert raised.value.refusal.error.endswith("/create: File exists (EEXIST)")
    assert str(same_uuid_again.function) in raised.value.refusal.step
    assert raised.value.refusal.left_over == ()
    assert vgpus(a2) == {}


async def test_a_refused_profile_change_brings_the_old_vgpu_back(a2: SimulatedHost) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    await execute(a2, Plan((create,)))
    remove = RemoveMdev(create.function, create.type_id, create.profile, create.uuid)
    impossible = CreateMdev(create.function, "nvidia-9999", "NVIDIA A2-99Q", create.uuid)

    with pytest.raises(StepError):
        await execute(a2, Plan((remove, impossible)))

    assert vgpus(a2) == {create.function: "NVIDIA A2-4Q"}


class Deaf:
    """A host whose driver takes every write and does nothing."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host

    def __getattr__(self, name: str) -> object:
        return getattr(self._host, name)

    def write(self, path: str, data: str) -> None:
        """Succeed."""


async def test_a_write_that_changes_nothing_is_a_failure(l40s: SimulatedHost) -> None:
    vgpu = scan(l40s).vgpus[0]
    kind = vgpu.creatable[0]

    with pytest.raises(StepError, match="nothing changed"):
        await execute(
            Deaf(l40s),  # type: ignore[arg-type]
            Plan((SetVgpuType(vgpu.address, kind.id, "0", kind.name),)),
        )


class Held(Deaf):
    """A host on which writes block until the test lets them go."""

    def __init__(self, host: SimulatedHost) -> None:
        super().__init__(host)
        self.release = threading.Event()

    def write(self, path: str, data: str) -> None:
        """Block, as the kernel does while a VM holds the device."""
        self.release.wait()


async def test_a_write_that_blocks_is_abandoned(a2: SimulatedHost) -> None:
    held = Held(a2)
    try:
        with pytest.raises(StepError) as raised:
            await execute(
                held,  # type: ignore[arg-type]
                Plan((creation(a2, "NVIDIA A2-4Q"),)),
                write_seconds=0.01,
            )
    finally:
        held.release.set()

    assert errno.errorcode[errno.ETIMEDOUT] in raised.value.refusal.error
    assert "held" in raised.value.refusal.error
