"""Cards in other slots after a reboot: every spec follows its card, and none acts on another."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from laneway.api import MigConfiguration, PCIDevice, SRIOVGPUDevice, VGPUDevice
from laneway.controllers.timing import Timing
from laneway.core.names import pci_object_name
from laneway.core.pci import PciAddress
from laneway.host.nvidia.modes import read_modes
from laneway.host.plans import moved
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from laneway.kube.events import EVENTS
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost
from laneway.sim.seats import Seat
from laneway.sim.spec import build, parse_spec

Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"
A2, NEXT, THIRD = (PciAddress.parse(f"0000:{bus}:00.0") for bus in ("08", "09", "0a"))
FIRST, BEHIND, SECOND = (PciAddress.parse(f"0000:{bus}:00.0") for bus in ("17", "18", "98"))
INSERTED = {A2: Seat(A2, "new"), NEXT: Seat(A2)}
TWO = {A2: Seat(A2), NEXT: Seat(A2, "other")}
SWAPPED = {A2: Seat(A2, "other"), NEXT: Seat(A2)}


def booted(seats: Mapping[PciAddress, Seat], model: str = "a2") -> SimulatedHost:
    return build(parse_spec(model), "node1", seats=seats)


def name(address: PciAddress) -> str:
    return pci_object_name("node1", address)


def vf(gpu: PciAddress, number: int) -> PciAddress:
    return gpu._replace(device=number + 4 >> 3, function=number + 4 & 7)


async def enable(cluster: Any, gpu: PciAddress, **vgpus: str) -> None:
    """Share a GPU, and have vGPUs on its functions, `vf0` and so on."""
    await cluster.patch(SRIOVGPUDevice, name(gpu), {"spec": {"enabled": True}})
    await cluster.answer(name(gpu), "Enabled", SRIOVGPUDevice)
    for function, profile in vgpus.items():
        vgpu = name(vf(gpu, int(function.removeprefix("vf"))))
        await cluster.until(VGPUDevice, vgpu, lambda obj: obj is not None)
        await cluster.ask(vgpu, profile)
        await cluster.answer(vgpu, "Configured")


async def uuids(cluster: Any, gpu: PciAddress, *numbers: int) -> list[str]:
    found = [await cluster.answer(name(vf(gpu, one)), "Configured") for one in numbers]
    return [vgpu.status.uuid for vgpu in found]


async def desired(cluster: Any) -> dict[str, str]:
    """All vGPUs that are desired, by object."""
    found = await cluster.all(VGPUDevice)
    return {one.metadata.name: one.spec.vgpu_type_name for one in found if one.spec.enabled}


async def events(cluster: Any, agent: Any, of: str) -> dict[str, str]:
    """The events of an object, by reason."""
    await agent.recorder.flush()
    pages = [page async for page in cluster.client.list(EVENTS, "default")]
    found = [msgspec.json.decode(item) for page in pages for item in page.items]
    return {
        event["reason"]: event["message"]
        for event in found
        if event["involvedObject"]["name"] == of
    }


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_card_that_is_inserted_before_takes_nothing_with_it(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted({A2: Seat(A2)}))
    await enable(cluster, A2, vf0=Q4, vf9=Q4)
    before = await uuids(cluster, A2, 0, 9)
    card = (await cluster.get(SRIOVGPUDevice, name(A2))).status.gpu_uuid
    await cluster.stop_agent(agent)

    host = booted(INSERTED)
    agent = await cluster.start_agent("node1", host)

    assert await desired(cluster) == {name(vf(NEXT, 0)): Q4, name(vf(NEXT, 9)): Q4}
    assert await uuids(cluster, NEXT, 0, 9) == before
    assert cluster.carried(host) == {str(vf(NEXT, 0)): Q4, str(vf(NEXT, 9)): Q4}
    assert (await cluster.get(SRIOVGPUDevice, name(NEXT))).status.gpu_uuid == card
    new = await cluster.answer(name(A2), "Disabled", SRIOVGPUDevice)
    assert not new.spec.enabled
    assert new.status.gpu_uuid not in ("", card)
    assert "Renumbered" in await events(cluster, agent, name(NEXT))


@pytest.mark.slow
async def test_vgpus_without_a_uuid_follow_alike(cluster: Any) -> None:
    q8 = "NVIDIA L40S-8Q"
    seats = {FIRST: Seat(FIRST), SECOND: Seat(SECOND)}
    agent = await cluster.start_agent("node1", booted(seats, "l40s"))
    await enable(cluster, FIRST, vf0=q8, vf30=q8)
    await cluster.stop_agent(agent)

    host = booted({FIRST: Seat(FIRST, "new"), BEHIND: Seat(FIRST), SECOND: Seat(SECOND)}, "l40s")
    await cluster.start_agent("node1", host)

    await uuids(cluster, BEHIND, 0, 30)
    assert cluster.carried(host) == {str(vf(BEHIND, 0)): q8, str(vf(BEHIND, 30)): q8}
    assert set(await desired(cluster)) == {name(vf(BEHIND, 0)), name(vf(BEHIND, 30))}


async def test_a_mode_for_later_follows_alike(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted({A2: Seat(A2)}))
    await cluster.patch(SRIOVGPUDevice, name(A2), {"spec": {"mode": "SameSize"}})
    await cluster.answer(name(A2), "Disabled", SRIOVGPUDevice)
    await cluster.stop_agent(agent)

    await cluster.start_agent("node1", booted(INSERTED))

    follows = await cluster.until(SRIOVGPUDevice, name(NEXT), lambda gpu: gpu.spec.mode)
    assert (follows.spec.enabled, follows.spec.mode) == (False, "SameSize")
    assert (await cluster.get(SRIOVGPUDevice, name(A2))).spec.mode == ""


@pytest.mark.slow
async def test_gpu_instances_follow_alike(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted({FIRST: Seat(FIRST)}, "a100"))
    await cluster.patch(SRIOVGPUDevice, name(FIRST), {"spec": {"mode": "MIG"}})
    await cluster.until(MigConfiguration, name(FIRST), lambda obj: obj is not None)
    profiles = (await cluster.get(MigConfiguration, name(FIRST))).spec.profile_spec
    asked = [
        {"name": one.name, "id": one.id, "requested": int("3g" in one.name)} for one in profiles
    ]
    spec = {"enabled": True, "profileSpec": asked}
    await cluster.patch(MigConfiguration, name(FIRST), {"spec": spec})
    await cluster.answer(name(FIRST), "Synced", MigConfiguration)
    await cluster.stop_agent(agent)

    host = booted({FIRST: Seat(FIRST, "new"), BEHIND: Seat(FIRST)}, "a100")
    await cluster.start_agent("node1", host)

    await cluster.answer(name(BEHIND), "Synced", MigConfiguration)
    instances = (await read_modes(host, BEHIND)).instances
    assert [one.profile for one in instances] == ["3g.20gb"]
    assert not (await read_modes(host, FIRST)).mig
    await cluster.until(MigConfiguration, name(FIRST), lambda obj: obj is None)


@pytest.mark.slow
async def test_an_api_that_refuses_holds_up_the_moved_cards_alone(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.timing = Timing(renumber=0.1)
    agent = await cluster.start_agent("node1", booted({A2: Seat(A2)}))
    await enable(cluster, A2, vf0=Q4)
    before = await uuids(cluster, A2, 0)
    await cluster.stop_agent(agent)
    host = booted(INSERTED)
    with monkeypatch.context() as patch:
        patch.setattr(Client, "create", _refusing(Client.create))
        agent = await cluster.start_agent("node1", host)
        await cluster.quiet(agent)
        assert scan(host).vgpus == ()
        assert set(await desired(cluster)) == {name(vf(A2, 0))}
        assert name(NEXT) in await cluster.names(PCIDevice)

    await cluster.until(VGPUDevice, name(vf(NEXT, 0)), lambda vgpu: vgpu is not None)
    assert await uuids(cluster, NEXT, 0) == before
    assert cluster.carried(host) == {str(vf(NEXT, 0)): Q4}


def _refusing(real: Any) -> Any:
    async def create(self: Client, resource: Any, *args: Any, **options: Any) -> Any:
        if resource.type is VGPUDevice:
            raise ForbiddenError(403, "Forbidden", "an admission webhook said no")
        return await real(self, resource, *args, **options)

    return create


@pytest.mark.slow
async def test_a_damaged_journal_is_said_and_nothing_is_done_on_the_wrong_card(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    agent = await cluster.start_agent("node1", booted(TWO))
    await enable(cluster, A2, vf0=Q4)
    await cluster.stop_agent(agent)
    journal = cluster.folder / "node1" / "renumbering.json"
    journal.write_bytes(b"{")

    host = booted(SWAPPED)
    agent = await cluster.start_agent("node1", host)

    gpu = await cluster.answer(name(A2), "CardReplaced", SRIOVGPUDevice)
    assert str(NEXT) in cluster.message(gpu)
    assert "renumbering.json is damaged" in caplog.text
    assert scan(host).vgpus == ()

    await cluster.stop_agent(agent)
    journal.unlink()
    await cluster.start_agent("node1", host)
    await uuids(cluster, NEXT, 0)
    assert {vgpu.parent for vgpu in scan(host).vgpus} == {NEXT}


@pytest.mark.slow
async def test_swapped_cards_swap_their_desired_states(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted(TWO))
    await enable(cluster, A2, vf0=Q4, vf1=Q4)
    await enable(cluster, NEXT, vf0=Q8)
    one, other = await uuids(cluster, A2, 0, 1), await uuids(cluster, NEXT, 0)
    await cluster.stop_agent(agent)

    host = booted(SWAPPED)
    await cluster.start_agent("node1", host)

    assert await uuids(cluster, NEXT, 0, 1) == one
    assert await uuids(cluster, A2, 0) == other
    assert cluster.carried(host) == {
        str(vf(NEXT, 0)): Q4,
        str(vf(NEXT, 1)): Q4,
        str(vf(A2, 0)): Q8,
    }
    assert len(await desired(cluster)) == 3


@pytest.mark.slow
async def test_an_agent_that_is_killed_at_any_write_goes_on_where_it_was(
    cluster: Any, dying: Callable[[int], Client]
) -> None:
    """Two cards go up and down by one slot, so that objects are made, changed and removed."""
    agent = await cluster.start_agent("node1", booted(TWO))
    await enable(cluster, A2, vf0=Q4)
    await enable(cluster, NEXT, vf3=Q8)
    one, other = await uuids(cluster, A2, 0), await uuids(cluster, NEXT, 3)
    await cluster.stop_agent(agent)
    client = cluster.own

    for writes in range(11):
        here, there = (NEXT, THIRD) if writes % 2 == 0 else (A2, NEXT)
        host = booted({here: Seat(A2), there: Seat(A2, "other")})
        cluster.own = dying(writes)
        with pytest.raises(BaseExceptionGroup):
            await cluster.start_agent("node1", host)
        cluster.own = client
        agent = await cluster.start_agent("node1", host)

        assert await uuids(cluster, here, 0) == one, writes
        assert await uuids(cluster, there, 3) == other, writes
        assert cluster.carried(host) == {str(vf(here, 0)): Q4, str(vf(there, 3)): Q8}
        assert set(await desired(cluster)) == {name(vf(here, 0)), name(vf(there, 3))}
        assert not (cluster.folder / "node1" / "renumbering.json").exists()
        await cluster.stop_agent(agent)


@pytest.mark.slow
async def test_what_is_changed_after_a_kill_is_not_changed_back(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = await cluster.start_agent("node1", booted({A2: Seat(A2)}))
    await enable(cluster, A2, vf0=Q4)
    await cluster.stop_agent(agent)
    host = booted(INSERTED)
    with monkeypatch.context() as patch:
        patch.setattr(moved, "end", _die)
        with contextlib.suppress(BaseExceptionGroup):
            await cluster.start_agent("node1", host)
    await cluster.disable(name(vf(NEXT, 0)))

    await cluster.start_agent("node1", host)

    await cluster.answer(name(vf(NEXT, 0)), "NotConfigured")
    assert cluster.carried(host) == {}


def _die(_state: Any) -> None:
    raise Killed


@pytest.fixture
def dying(cluster: Any) -> Callable[[int], Client]:
    """A client of a process that is killed instead of making one write more than that."""

    class Dying(Client):
        def __init__(self, writes: int) -> None:
            self.__dict__ |= cluster.own.__dict__
            self.left = writes

        async def call(self, method: str, path: str, *args: Any) -> bytes:
            if method != "GET" and "/devices.harvesterhci.io/" in path:
                if self.left == 0:
                    raise Killed
                self.left -= 1
            return await super().call(method, path, *args)

    return Dying


@pytest.mark.slow
async def test_cards_are_distinguished_once_their_driver_is_loaded(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted(TWO))
    await enable(cluster, A2, vf0=Q4)
    await enable(cluster, NEXT, vf0=Q8)
    one, other = await uuids(cluster, A2, 0), await uuids(cluster, NEXT, 0)
    await cluster.stop_agent(agent)
    host = booted({NEXT: Seat(A2, "other"), THIRD: Seat(A2)})
    for card in (NEXT, THIRD):
        host.write("/sys/bus/pci/drivers/nvidia/unbind", str(card))

    agent = await cluster.start_agent("node1", host)
    await cluster.quiet(agent)
    assert name(A2) in await cluster.names(SRIOVGPUDevice), "its card may be any of them"
    host.write("/sys/bus/pci/drivers/nvidia/bind", str(NEXT))
    await cluster.until(SRIOVGPUDevice, name(NEXT), lambda gpu: gpu.status.vf_addresses)
    host.write("/sys/bus/pci/drivers/nvidia/bind", str(THIRD))

    await cluster.until(VGPUDevice, name(vf(THIRD, 0)), lambda vgpu: vgpu is not None)
    assert await uuids(cluster, THIRD, 0) == one
    assert await uuids(cluster, NEXT, 0) == other
    assert cluster.carried(host) == {str(vf(THIRD, 0)): Q4, str(vf(NEXT, 0)): Q8}
    await cluster.until(SRIOVGPUDevice, name(A2), lambda gpu: gpu is None)


@pytest.mark.slow
async def test_nothing_is_done_before_the_driver_knows_the_card(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted(TWO))
    await enable(cluster, A2, vf0=Q4)
    before = await uuids(cluster, A2, 0)
    await cluster.stop_agent(agent)

    host = Unasked(booted(SWAPPED))
    await cluster.start_agent("node1", host)

    assert await uuids(cluster, NEXT, 0) == before
    assert {vgpu.parent for vgpu in scan(host).vgpus} == {NEXT}


class Unasked:
    """A host whose driver knows the UUID of a card only once it was asked something else of it."""

    def __init__(self, host: SimulatedHost) -> None:
        self.host = host
        self.asked: set[str] = set()

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.host, attribute)

    def read(self, path: str) -> bytes:
        reported = self.host.read(path)
        if path.startswith("/proc/driver/nvidia/gpus/") and path.split("/")[5] not in self.asked:
            reported = re.sub(
                rb"GPU-[0-9a-f-]+", b"GPU-????????-????-????-????-????????????", reported
            )
        return reported

    async def run(self, argv: Sequence[str], seconds: float) -> Any:
        done = await self.host.run(argv, seconds)
        self.asked |= {str(card) for card in (A2, NEXT) if str(card) in " ".join(argv)}
        return done


@pytest.mark.slow
async def test_what_was_desired_of_a_card_that_is_gone_makes_room_and_is_reported(
    cluster: Any,
) -> None:
    agent = await cluster.start_agent("node1", booted(TWO))
    await enable(cluster, A2, vf0=Q4)
    await enable(cluster, NEXT, vf3=Q8)
    before = await uuids(cluster, A2, 0)
    gone = (await cluster.get(SRIOVGPUDevice, name(NEXT))).status.gpu_uuid
    await cluster.stop_agent(agent)

    host = booted({NEXT: Seat(A2)})
    agent = await cluster.start_agent("node1", host)

    assert await uuids(cluster, NEXT, 0) == before
    assert cluster.carried(host) == {str(vf(NEXT, 0)): Q4}
    assert await desired(cluster) == {name(vf(NEXT, 0)): Q4}
    reported = await events(cluster, agent, name(NEXT))
    assert f"The configuration of {gone}, which is gone, is deleted." in reported["Renumbered"]


@pytest.mark.slow
async def test_a_reboot_without_a_move_writes_no_desired_state(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted(TWO))
    await enable(cluster, A2, vf0=Q4)
    before = await uuids(cluster, A2, 0)
    generation = (await cluster.get(VGPUDevice, name(vf(A2, 0)))).metadata.generation
    await cluster.stop_agent(agent)

    await cluster.start_agent("node1", booted(TWO))

    assert await uuids(cluster, A2, 0) == before
    after = await cluster.get(VGPUDevice, name(vf(A2, 0)))
    assert after.metadata.generation == generation


async def test_a_card_in_the_place_of_another_inherits_nothing_unasked(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted({A2: Seat(A2)}))
    await enable(cluster, A2, vf0=Q4)
    old = (await cluster.get(SRIOVGPUDevice, name(A2))).status.gpu_uuid
    await cluster.stop_agent(agent)

    host = booted({A2: Seat(A2, "new")})
    new = scan(host).identities[A2]
    agent = await cluster.start_agent("node1", host)

    gpu = await cluster.answer(name(A2), "CardReplaced", SRIOVGPUDevice)
    vgpu = await cluster.answer(name(vf(A2, 0)), "CardReplaced")
    assert old in cluster.message(gpu)
    assert new in cluster.message(gpu)
    assert gpu.status.gpu_uuid == old
    assert vgpu.spec.enabled
    # Nor by and by, nor by another agent.
    await cluster.stop_agent(agent)
    agent = await cluster.start_agent("node1", host)
    await cluster.quiet(agent)
    assert scan(host).vgpus == ()

    await cluster.patch(SRIOVGPUDevice, name(A2), {"spec": {"mode": "SameSize"}})

    await uuids(cluster, A2, 0)
    assert cluster.carried(host) == {str(vf(A2, 0)): Q4}
    assert (await cluster.get(SRIOVGPUDevice, name(A2))).status.gpu_uuid == new


@pytest.mark.slow
async def test_desired_states_for_a_card_that_is_gone_can_be_given_up(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted({A2: Seat(A2)}))
    await enable(cluster, A2, vf0=Q4)
    await cluster.stop_agent(agent)
    host = booted({A2: Seat(A2, "new")})
    await cluster.start_agent("node1", host)
    await cluster.answer(name(A2), "CardReplaced", SRIOVGPUDevice)

    await cluster.patch(SRIOVGPUDevice, name(A2), {"spec": {"enabled": False}})

    gpu = await cluster.answer(name(A2), "Disabled", SRIOVGPUDevice)
    assert gpu.status.gpu_uuid == scan(host).identities[A2]
    assert scan(host).vgpus == ()


async def test_a_card_of_which_nothing_is_desired_is_taken_as_it_is(cluster: Any) -> None:
    agent = await cluster.start_agent("node1", booted({A2: Seat(A2)}))
    await cluster.stop_agent(agent)

    host = booted({A2: Seat(A2, "new")})
    await cluster.start_agent("node1", host)

    gpu = await cluster.answer(name(A2), "Disabled", SRIOVGPUDevice)
    assert gpu.status.gpu_uuid == scan(host).identities[A2]
