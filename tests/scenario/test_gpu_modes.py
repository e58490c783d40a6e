"""The mode of a GPU by its object: every transition, and what survives what."""

from __future__ import annotations

import contextlib
from itertools import pairwise

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.core.gpu.modes import Mode
from laneway.core.pci import PciAddress
from laneway.host.nvidia.modes import read_modes
from laneway.kube.resource import served
from support.examples import first
from support.gpu_modes import (
    A2,
    A100,
    MANAGE,
    SMI,
    Deadly,
    configuration,
    desired,
    events,
    found,
    gpus_of,
    in_mode,
    named,
    refused,
)

ALL = tuple(Mode)
SLICED = (Mode.PASSTHROUGH, Mode.SAME_SIZE, Mode.MIXED_SIZE)
ROUND = [Mode.MIG_BACKED, Mode.MIXED_SIZE, Mode.MIG, Mode.SAME_SIZE, Mode.PASSTHROUGH]


def walk(modes: tuple[Mode, ...]) -> list[Mode]:
    """From the first, along every way from each mode to each other, back to the first."""
    path = []
    for index, mode in enumerate(modes):
        path += [step for other in modes[index + 1 :] for step in (mode, other)]
    return [*path, modes[0]]


def test_the_walk_takes_every_way_once() -> None:
    ways = list(pairwise(walk(ALL)))
    assert len(ways) == len(set(ways)) == len(ALL) * (len(ALL) - 1)


# ----------------------------------------------------------------------------- each to each other


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("a2", walk(SLICED)),
        ("l40s", [Mode.MIXED_SIZE, Mode.PASSTHROUGH]),
        pytest.param("a100", walk(ALL), marks=pytest.mark.slow),
        pytest.param("hgx-h100", ROUND, marks=pytest.mark.slow),
        pytest.param("rtx-pro-6000", ROUND, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
async def test_each_mode_into_each_other(cluster, bare, model, path):
    host = bare(model)
    await cluster.start_agent("node1", host)
    address, *others = gpus_of(host)

    for mode in path:
        await desired(cluster, named(address), mode)

        gpu = await in_mode(cluster, named(address), mode)
        assert await found(host, address) is mode
        assert bool(gpu.status.vf_addresses) == mode.has_vfs
        assert len(gpu.status.vgpu_devices) == len(gpu.status.vf_addresses)
        assert gpu.status.configured == {}
    for other in others:
        assert await found(host, other) is Mode.PASSTHROUGH


@pytest.mark.slow
@pytest.mark.realapi
async def test_what_a_transition_does_is_reported_in_one_event(cluster, bare):
    agent = await cluster.start_agent("node1", bare("a2"))
    await desired(cluster, named(A2), "MixedSize")
    await in_mode(cluster, named(A2), "MixedSize")
    await desired(cluster, named(A2), "SameSize")
    await in_mode(cluster, named(A2), "SameSize")
    await cluster.quiet(agent)

    reported = dict(await events(cluster, named(A2)))

    assert reported.keys() == {"Enabled", "ModeChanged"}
    assert "enable the 16 virtual functions" in reported["Enabled"]
    assert "allow vGPUs of mixed sizes" in reported["Enabled"]
    assert "forbid vGPUs of mixed sizes" in reported["ModeChanged"]


# ------------------------------------------------------------------------------ what is published


@pytest.mark.slow
async def test_the_object_tells_what_the_gpu_carries_and_what_still_fits(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    gpu = await in_mode(cluster, named(A2), "SameSize")
    assert gpu.status.configured == {}
    assert gpu.status.fits["NVIDIA A2-8Q"] == 2
    assert gpu.status.fits["NVIDIA A2-4Q"] == 4
    uuid = gpu.status.gpu_uuid
    assert uuid.startswith("GPU-")

    await cluster.ask(gpu.status.vgpu_devices[0], "NVIDIA A2-8Q")

    gpu = await cluster.until(SRIOVGPUDevice, named(A2), lambda one: one.status.configured)
    assert gpu.status.configured == {"NVIDIA A2-8Q": 1}
    assert gpu.status.fits["NVIDIA A2-8Q"] == 1
    assert gpu.status.fits["NVIDIA A2-4Q"] == 0
    assert gpu.status.gpu_uuid == uuid
    await cluster.disable(gpu.status.vgpu_devices[0])
    gpu = await cluster.until(SRIOVGPUDevice, named(A2), lambda one: not one.status.configured)
    assert gpu.status.fits["NVIDIA A2-4Q"] == 4


@pytest.mark.slow
@pytest.mark.parametrize("on", first(True, False))
async def test_mig_mode_that_is_there_is_adopted_and_never_switched_unasked(cluster, bare, on):
    host = bare("a100", A100)
    await cluster.start_agent("node1", host)
    await in_mode(cluster, named(A100), "MIG")

    await cluster.patch(SRIOVGPUDevice, named(A100), {"spec": {"enabled": True}})
    await in_mode(cluster, named(A100), "MIGBacked")
    await cluster.patch(SRIOVGPUDevice, named(A100), {"spec": {"enabled": on}})

    expected = Mode.MIG_BACKED if on else Mode.MIG
    await in_mode(cluster, named(A100), expected)
    assert await found(host, A100) is expected


@pytest.mark.slow
async def test_a_mode_for_later_takes_effect_with_the_functions(cluster, bare):
    host = bare("a2")
    await cluster.start_agent("node1", host)
    await desired(cluster, named(A2), "MixedSize", enabled=False)
    gpu = await cluster.answer(named(A2), "Disabled", SRIOVGPUDevice)
    assert gpu.status.mode == "Passthrough"

    await cluster.patch(SRIOVGPUDevice, named(A2), {"spec": {"enabled": True}})

    await in_mode(cluster, named(A2), "MixedSize")
    assert await found(host, A2) is Mode.MIXED_SIZE


# ------------------------------------------------------------------------------ GPU instances


@pytest.mark.realapi
async def test_a_division_that_is_requested_chooses_mig_and_vgpus_follow(cluster, bare):
    host = bare("a100")
    await cluster.start_agent("node1", host)
    await cluster.client.create(served(MigConfiguration), configuration(A100, one=2))
    await cluster.patch(SRIOVGPUDevice, named(A100), {"spec": {"enabled": True}})

    gpu = await cluster.until(
        SRIOVGPUDevice,
        named(A100),
        lambda one: one.status.mode == "MIGBacked" and one.status.fits.get("GRID A100-1-5C") == 2,
    )
    vgpu = gpu.status.vgpu_devices[0]
    await cluster.ask(vgpu, "GRID A100-1-5C")
    await cluster.answer(vgpu, "Configured")
    modes = await read_modes(host, PciAddress.parse(A100))
    assert [one.profile for one in modes.instances] == ["1g.5gb", "1g.5gb"]


@pytest.mark.slow
async def test_a_division_that_is_requested_later_takes_the_shared_gpu_along(cluster, simulated):
    host = simulated("a100", "node1")
    await cluster.start_agent("node1", host)
    await in_mode(cluster, named(A100), "SameSize")

    await cluster.client.create(served(MigConfiguration), configuration(A100, two=1))

    await cluster.until(MigConfiguration, named(A100), lambda one: one.status.status == "synced")
    await in_mode(cluster, named(A100), "MIGBacked")
    modes = await read_modes(host, PciAddress.parse(A100))
    assert [one.profile for one in modes.instances] == ["2g.10gb"]


@pytest.mark.slow
async def test_gpu_instances_without_vgpus_are_requested(cluster, bare):
    await cluster.start_agent("node1", bare("a100"))

    await desired(cluster, named(A100), "MIGBacked")

    assert "MigConfiguration" in await refused(cluster, named(A100), "NoGpuInstances")


@pytest.mark.slow
async def test_a_division_that_is_still_requested_keeps_mig_mode(cluster, bare):
    host = bare("a100")
    await cluster.start_agent("node1", host)
    await desired(cluster, named(A100), "MIG")
    await in_mode(cluster, named(A100), "MIG")
    resource = served(MigConfiguration)
    await cluster.until(MigConfiguration, named(A100), lambda one: one is not None)
    await cluster.client.patch(resource, named(A100), configuration(A100, one=1))
    await cluster.until(MigConfiguration, named(A100), lambda one: one.status.status == "synced")

    await desired(cluster, named(A100), "SameSize")

    await refused(cluster, named(A100), "MigConfigurationEnabled")
    assert await found(host, A100) is Mode.MIG
    await cluster.client.patch(resource, named(A100), {"spec": {"enabled": False}})
    await in_mode(cluster, named(A100), "SameSize")


# ---------------------------------------------------------------------------- drift and reboots


@pytest.mark.slow
@pytest.mark.parametrize("functions", [False, True], ids=["without", "with-functions"])
async def test_after_a_boot_mixed_sizes_come_back_with_the_vgpus(cluster, bare, functions):
    agent = await cluster.start_agent("node1", bare("a2"))
    await desired(cluster, named(A2), "MixedSize")
    gpu = await in_mode(cluster, named(A2), "MixedSize")
    profiles = dict(zip(gpu.status.vgpu_devices, ("NVIDIA A2-8Q", "NVIDIA A2-4Q"), strict=False))
    for name, profile in profiles.items():
        await cluster.ask(name, profile)
        await cluster.answer(name, "Configured")
    await cluster.stop_agent(agent)

    rebooted = bare("a2")
    if functions:  # Many hosts have a service that makes them at every boot.
        assert rebooted.call([MANAGE, "-e", A2]).status == 0
    await cluster.start_agent("node1", rebooted)

    for name, profile in profiles.items():
        await cluster.until(
            VGPUDevice, name, lambda v, p=profile: v.status.configure_vgpu_type_name == p
        )
    await in_mode(cluster, named(A2), "MixedSize")
    assert await found(rebooted, A2) is Mode.MIXED_SIZE


@pytest.mark.slow
async def test_after_a_boot_mig_mode_is_still_there_and_functions_come_back(cluster, bare):
    agent = await cluster.start_agent("node1", bare("a100"))
    await desired(cluster, named(A100), "MIGBacked")
    await in_mode(cluster, named(A100), "MIGBacked")
    await cluster.stop_agent(agent)

    rebooted = bare("a100", A100)
    await cluster.start_agent("node1", rebooted)

    await in_mode(cluster, named(A100), "MIGBacked")
    assert await found(rebooted, A100) is Mode.MIG_BACKED


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
async def test_after_a_boot_mig_mode_that_is_lost_comes_back_although_a_service_made_functions(
    cluster, bare, killed
):
    agent = await cluster.start_agent("node1", bare("a100"))
    await desired(cluster, named(A100), "MIGBacked")
    await in_mode(cluster, named(A100), "MIGBacked")
    await cluster.stop_agent(agent)

    rebooted = bare("a100")
    assert rebooted.call([MANAGE, "-e", A100]).status == 0
    if killed:
        rebooted.faults.kill_at(1, when="after")
        with contextlib.suppress(BaseExceptionGroup):  # It may die before it is ready, or after.
            await cluster.died(await cluster.start_agent("node1", rebooted, boot="another"))
        rebooted.restart()
    agent = await cluster.start_agent("node1", rebooted, boot="another")

    await in_mode(cluster, named(A100), "MIGBacked")
    assert await found(rebooted, A100) is Mode.MIG_BACKED

    # A change in the same boot is meant.
    await cluster.stop_agent(agent)
    for argv in ([MANAGE, "-d", A100], [SMI, "-i", A100, "-mig", "0"], [MANAGE, "-e", A100]):
        assert rebooted.call(argv).status == 0
    await cluster.start_agent("node1", rebooted, boot="another")
    await refused(cluster, named(A100), "UnmanagedMode")
    assert await found(rebooted, A100) is Mode.SAME_SIZE


@pytest.mark.slow
async def test_removed_mixed_sizes_come_back(cluster, bare):
    host = bare("a2")
    agent = await cluster.start_agent("node1", host)
    await desired(cluster, named(A2), "MixedSize")
    await in_mode(cluster, named(A2), "MixedSize")

    assert host.call([SMI, "vgpu", "-i", A2, "-shm", "0"]).status == 0
    await agent.observer.rescan(PciAddress.parse(A2))

    await cluster.quiet(agent)
    await in_mode(cluster, named(A2), "MixedSize")
    assert await found(host, A2) is Mode.MIXED_SIZE


@pytest.mark.slow
async def test_a_vgpu_that_was_made_in_the_wrong_mode_stays_until_it_is_gone(cluster, bare):
    host = bare("a2")
    agent = await cluster.start_agent("node1", host)
    await desired(cluster, named(A2), "MixedSize")
    gpu = await in_mode(cluster, named(A2), "MixedSize")
    await cluster.stop_agent(agent)
    function, uuid = gpu.status.vf_addresses[0], "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
    for option in ("-d", "-e"):
        assert host.call([MANAGE, option, A2]).status == 0
    types = f"/sys/bus/pci/devices/{function}/mdev_supported_types"
    made = next(
        name
        for name in host.names(types)
        if host.read(f"{types}/{name}/name").decode().strip() == "NVIDIA A2-4Q"
    )
    host.write(f"{types}/{made}/create", uuid)

    await cluster.start_agent("node1", host)

    words = await refused(cluster, named(A2), "DeviceInUse")
    assert "NVIDIA A2-4Q" in words
    assert function in words
    assert set(cluster.carried(host).values()) == {"NVIDIA A2-4Q"}
    host.write(f"/sys/bus/mdev/devices/{uuid}/remove", "1")
    await in_mode(cluster, named(A2), "MixedSize")


@pytest.mark.slow
async def test_another_mode_set_by_hand_stays_until_asked_again(cluster, bare):
    host = bare("a100")
    agent = await cluster.start_agent("node1", host)
    await desired(cluster, named(A100), "MIGBacked")
    await in_mode(cluster, named(A100), "MIGBacked")
    await cluster.stop_agent(agent)
    for argv in ([MANAGE, "-d", A100], [SMI, "-i", A100, "-mig", "0"], [MANAGE, "-e", A100]):
        assert host.call(argv).status == 0

    await cluster.start_agent("node1", host)

    assert "SameSize" in await refused(cluster, named(A100), "UnmanagedMode")
    assert await found(host, A100) is Mode.SAME_SIZE
    await desired(cluster, named(A100), "SameSize")
    await in_mode(cluster, named(A100), "SameSize")
    await desired(cluster, named(A100), "MIGBacked")
    await in_mode(cluster, named(A100), "MIGBacked")


@pytest.mark.slow
async def test_a_desired_state_that_was_made_in_view_of_another_mode_takes_nothing(cluster, bare):
    host = bare("a100")
    agent = await cluster.start_agent("node1", host)
    await desired(cluster, named(A100), "SameSize")
    await in_mode(cluster, named(A100), "SameSize")
    await cluster.stop_agent(agent)
    for argv in ([MANAGE, "-d", A100], [SMI, "-i", A100, "-mig", "1"], [MANAGE, "-e", A100]):
        assert host.call(argv).status == 0
    await desired(cluster, named(A100), "MixedSize")

    await cluster.start_agent("node1", host)

    assert "MIGBacked" in await refused(cluster, named(A100), "UnmanagedMode")
    assert await found(host, A100) is Mode.MIG_BACKED


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_restored_object_forces_no_mode_on_what_runs(cluster, bare):
    host = bare("a100")
    agent = await cluster.start_agent("node1", host)
    await desired(cluster, named(A100), "SameSize")
    await in_mode(cluster, named(A100), "SameSize")
    await cluster.backup()
    await desired(cluster, named(A100), "MIGBacked")
    await in_mode(cluster, named(A100), "MIGBacked")
    await cluster.stop_agent(agent)

    await cluster.restore()
    agent = await cluster.start_agent("node1", host)

    await refused(cluster, named(A100), "UnmanagedMode")
    await cluster.quiet(agent)
    assert await found(host, A100) is Mode.MIG_BACKED


# ------------------------------------------------------------------------------------- crashes


@pytest.mark.slow
@pytest.mark.parametrize("when", first("during", "before", "after"))
async def test_an_agent_killed_at_any_command_ends_as_one_that_was_not(cluster, bare, when):
    host = Deadly(bare("a100"))
    agent = await cluster.start_agent("node1", host)
    # Mixed sizes are forbidden, functions go, MIG mode comes, functions come.
    for number in range(1, 5):
        await desired(cluster, named(A100), "MixedSize")
        await in_mode(cluster, named(A100), "MixedSize")
        await cluster.quiet(agent)
        host.fatal, host.when = number, when
        await desired(cluster, named(A100), "MIGBacked")
        await cluster.died(agent)
        assert host.fatal == 0
        host.restart()

        agent = await cluster.start_agent("node1", host)

        gpu = await in_mode(cluster, named(A100), "MIGBacked")
        assert await found(host, A100) is Mode.MIG_BACKED
        assert len(gpu.status.vf_addresses) == 16


async def test_at_rest_nothing_is_asked_or_written(cluster, bare, requests):
    host = bare("a100")
    agent = await cluster.start_agent("node1", host)
    await desired(cluster, named(A100), "MIGBacked")
    await refused(cluster, named(A100), "NoGpuInstances")
    await cluster.quiet(agent)
    requests.clear()

    for _ in range(3):
        await agent.observer.rescan(PciAddress.parse(A100))
        await cluster.quiet(agent)

    assert requests == []
