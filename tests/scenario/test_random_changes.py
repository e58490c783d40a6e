"""Desired states of every kind, one after the other, on four nodes with virtual machines.

Users change vGPUs, GPUs, their modes, GPU instances and layouts as they like and delete objects,
machines come and go, hardware is changed by others, requests fail, agents are killed in the middle
of a write and nodes are booted. What a machine holds never changes; and whenever everything has
come to rest the objects tell the hardware, and every desired state is met or says why not.

`LANEWAY_SEED` chooses the desired states, `LANEWAY_CHANGES` says how many there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from laneway.api import (
    LAYOUT_DONE,
    LAYOUT_IN_PROGRESS,
    MigConfiguration,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
    find_condition,
)
from laneway.controllers.timing import Timing
from laneway.core.gpu.desired import mode_of
from laneway.core.gpu.modes import Mode
from laneway.core.keys import LABEL_PARENT_GPU
from laneway.core.pci import PciFunction
from laneway.host.nvidia.modes import read_modes
from laneway.kube.client import Client
from laneway.kube.errors import ApiError, KubeError, NotFoundError, UnreachableError
from laneway.kube.resource import served
from laneway.sim.faults import Killed
from support.changing_node import IN_AGENT, Node
from support.examples import many

DESIRED_STATES = int(os.environ.get("LANEWAY_CHANGES") or many(120))
BETWEEN_RESTS = 10
SEED = int(os.environ.get("LANEWAY_SEED") or 5)
MODELS = {"node1": "a2", "node2": "l40s", "node3": "a100", "node4": "rtx-pro-6000"}
SECONDS = 60.0
LAYOUTS = ("one", "two")
FUNCTIONS = 6
"""Functions of each GPU that users change by hand."""


class Network:
    """Between agents and the API server. A request or its answer is lost now and then."""

    countdown = 0
    answered = False
    """Whether the request that fails is carried out all the same."""

    def is_due(self) -> bool:
        if not IN_AGENT.get() or not self.countdown:
            return False
        self.countdown -= 1
        return not self.countdown


class Life:
    """What happens."""

    def __init__(self, cluster: Any, nodes: list[Node], network: Network, seed: int) -> None:
        self.cluster = cluster
        self.nodes = nodes
        self.network = network
        self.random = random.Random(seed)
        self.reported: list[str] = []
        """What was desired, for who must understand a failure."""

    async def desired(self) -> None:
        desired_states: dict[Callable[[Node], Awaitable[str]], int] = {
            self.ask: 8,
            self.disable: 4,
            self.gpu_switch: 3,
            self.mode: 3,
            self.mig: 2,
            self.layout: 4,
            self.drop_layout: 2,
            self.machine: 4,
            self.meddle: 2,
            self.kill: 1,
            self.kill_later: 2,
            self.reboot: 1,
            self.lose_a_request: 2,
            self.delete: 1,
        }
        (chosen,) = self.random.choices(list(desired_states), weights=list(desired_states.values()))
        node = self.random.choice(self.nodes)
        # An object that is not there, and one that changed meanwhile, are a user's bad luck.
        with contextlib.suppress(KubeError):
            try:
                self.reported.append(f"{node.name}: {await chosen(node)}")
            except Killed:
                await self.revive()

    async def revive(self) -> None:
        """Start the agents again that were killed in a write."""
        for node in self.nodes:
            try:
                node.gpus()
            except Killed:
                await node.restart()
                self.reported.append(f"{node.name}: its agent starts again")

    def profile(self, node: Node) -> str:
        offered = sorted({kind.name for one in node.vgpus() for kind in one.creatable})
        dice = self.random.random()
        if dice < 0.7 and offered:
            return self.random.choice(offered)
        if dice < 0.95:
            return self.random.choice(node.profiles)
        return self.random.choice(["", "NVIDIA H100-80C", "../../etc", "x" * 300, "\u202e\n"])

    def function(self, node: Node) -> str:
        functions = self.random.choice(node.gpus()).vfs[:FUNCTIONS]
        return node.object(self.random.choice(functions)) if functions else "none"

    def card(self, node: Node) -> str:
        return node.object(self.random.choice(node.gpus()).address)

    async def patch(self, cls: type[Any], name: str, spec: dict[str, Any]) -> str:
        await self.cluster.patch(cls, name, {"spec": spec})
        return f"{cls.__name__} {name} {spec}"

    async def ask(self, node: Node) -> str:
        spec = {"enabled": True, "vGPUTypeName": self.profile(node)}
        return await self.patch(VGPUDevice, self.function(node), spec)

    async def disable(self, node: Node) -> str:
        enabled = [
            one.metadata.name
            for one in await self.cluster.all(VGPUDevice)
            if one.spec.enabled and one.spec.node_name == node.name
        ]
        some = self.random.sample(enabled, k=min(len(enabled), self.random.choice([1, 1, 2, 16])))
        return str([await self.patch(VGPUDevice, name, {"enabled": False}) for name in some])

    async def gpu_switch(self, node: Node) -> str:
        on = self.random.random() < 0.7
        return await self.patch(SRIOVGPUDevice, self.card(node), {"enabled": on})

    async def mode(self, node: Node) -> str:
        mode = self.random.choice(["", *Mode])
        spec: dict[str, Any] = {"mode": str(mode)}
        if self.random.random() < 0.6:
            spec["enabled"] = bool(mode) and Mode(mode).has_vfs
        return await self.patch(SRIOVGPUDevice, self.card(node), spec)

    async def mig(self, node: Node) -> str:
        name = self.card(node)
        stored = await self.cluster.get(MigConfiguration, name)
        wanted = [
            {"name": one.name, "id": one.id, "requested": self.random.choice([0, 0, 0, 1, 2])}
            for one in stored.spec.profile_spec
        ]
        spec = {"enabled": self.random.random() < 0.7, "profileSpec": wanted}
        return await self.patch(MigConfiguration, name, spec)

    async def layout(self, node: Node) -> str:
        name = self.random.choice(LAYOUTS)
        some = [
            {"profile": self.profile(node), "count": self.random.randint(1, 4)}
            for _ in range(self.random.choice([0, 1, 1, 1, 2]))
        ]
        spec = {
            "nodeSelector": {"names": [node.name]},
            "mode": self.random.choice(["", "", "", "SameSize", "MixedSize", "MIGBacked"]),
            "vgpus": some,
            "dryRun": self.random.random() < 0.15,
        }
        served_as = {"apiVersion": served(VGPULayout).api_version, "kind": "VGPULayout"}
        body = {**served_as, "metadata": {"name": name}, "spec": spec}
        try:
            await self.cluster.patch(VGPULayout, name, {"spec": spec})
        except NotFoundError:
            await self.cluster.client.create(served(VGPULayout), body)
        return f"layout {name} {spec}"

    async def drop_layout(self, _node: Node) -> str:
        name = self.random.choice(LAYOUTS)
        await self.cluster.client.delete(served(VGPULayout), name)
        return f"no layout {name}"

    async def machine(self, node: Node) -> str:
        """A virtual machine starts or stops."""
        free = [
            one for one in node.vgpus() if one.configured and str(one.address) not in node.machines
        ]
        if free and self.random.random() < 0.4:
            vgpu = self.random.choice(free)
            # The agent may be taking it away this moment.
            with contextlib.suppress(OSError):
                node.hold(vgpu)
                return f"a machine holds {vgpu.address}"
        if node.machines:
            function = self.random.choice(sorted(node.machines))
            node.machines.pop(function)[0].release()
            return f"nobody holds {function}"
        return "no machine"

    async def meddle(self, node: Node) -> str:
        """A vGPU is made or removed without Laneway."""
        vgpu = self.random.choice(node.vgpus() or (None,))
        if vgpu is None or str(vgpu.address) in node.machines or vgpu.framework == "mdev":
            return "nobody meddles"
        kind = self.random.choice(vgpu.creatable).id if vgpu.creatable else "0"
        with contextlib.suppress(OSError):
            node.host.write(f"/sys/bus/pci/devices/{vgpu.address}/nvidia/current_vgpu_type", kind)
        return f"somebody writes {kind} to {vgpu.address}"

    async def kill(self, node: Node) -> str:
        await node.restart()
        return "its agent is killed"

    async def kill_later(self, node: Node) -> str:
        number, when = self.random.randint(1, 4), self.random.choice(["before", "during", "after"])
        node.host.faults.kill_at(number, when)
        return f"its agent will be killed {when} write {number}"

    async def reboot(self, node: Node) -> str:
        service, stays = self.random.random() < 0.3, self.random.random() < 0.5
        await node.reboot(service=service, mig_stays=stays)
        return f"booted: a service makes functions {service}, MIG mode stays {stays}"

    async def lose_a_request(self, _node: Node) -> str:
        self.network.countdown = self.random.randint(1, 8)
        self.network.answered = self.random.random() < 0.5
        return f"request {self.network.countdown} fails, carried out: {self.network.answered}"

    async def delete(self, node: Node) -> str:
        """A user deletes objects, which says nothing about hardware."""
        cls = self.random.choice([VGPUDevice, SRIOVGPUDevice, MigConfiguration])
        there = await self.cluster.all(cls)
        mine = [one.metadata.name for one in there if one.spec.node_name == node.name]
        some = self.random.sample(mine, k=min(len(mine), self.random.choice([1, 4, 100])))
        for name in some:
            await self.cluster.client.delete(served(cls), name)
        return f"deletes {len(some)} {cls.__name__}: {some[:4]}"

    # ----------------------------------------------------------------------------------- rest

    async def rest(self) -> None:
        """Wait until everything is reported and done."""
        try:
            async with asyncio.timeout(SECONDS):
                while wrong := await self.wrong():
                    await self.revive()
                    for node in self.nodes:
                        node.agent.observer.want()
                    self.last = wrong
                    await asyncio.sleep(0.05)  # Rest is what nothing announces.
        except TimeoutError:
            story = "\n".join(self.reported[-2 * BETWEEN_RESTS :])
            raise AssertionError(f"seed {SEED}, after\n{story}\n{self.last}") from None

    async def wrong(self) -> list[str]:
        try:
            return await self.differences()
        except Killed:
            return ["an agent lies dead"]

    async def differences(self) -> list[str]:
        """Where objects and hardware differ, and what is neither met nor refused."""
        found: list[str] = []
        objects = await self.cluster.all(VGPUDevice)
        for node in self.nodes:
            mine = [one for one in objects if one.spec.node_name == node.name]
            found += [f"{node.name}: {text}" for text in await self.wrong_on(node, mine)]
        for layout in await self.cluster.all(VGPULayout):
            found += [f"layout {layout.metadata.name}: {text}" for text in self.wrong_in(layout)]
        return found

    async def wrong_on(self, node: Node, objects: list[Any]) -> list[str]:
        found = []
        stored = {one.metadata.name: one for one in objects}
        for vgpu in node.vgpus():
            obj = stored.pop(node.object(vgpu.address), None)
            name = vgpu.configured.type_name if vgpu.configured else ""
            if obj is None:
                found.append(f"no object for {vgpu.address}")
                continue
            said = obj.status
            if said.configure_vgpu_type_name != name:
                found.append(f"{vgpu.address} has {name}, told {said.configure_vgpu_type_name}")
            if dict(said.available_types) != {kind.name: kind.id for kind in vgpu.creatable}:
                found.append(f"{vgpu.address} tells other types than there are")
            asked = obj.spec.vgpu_type_name if obj.spec.enabled else ""
            met = asked in ("", name) and bool(vgpu.configured) == obj.spec.enabled
            found += _answer(obj, met=met)
        cards = [one for one in await self.cluster.all(SRIOVGPUDevice) if one.spec.enabled]
        waits = {one.metadata.name for one in cards if not one.status.vf_addresses}
        for obj in stored.values():
            if obj.spec.enabled:
                found += _answer(obj, met=False)
            elif obj.metadata.labels[LABEL_PARENT_GPU] not in waits:
                found.append(f"{obj.metadata.name} stays")
        for gpu in node.gpus():
            found += await self.wrong_of(node, gpu)
        return found

    async def wrong_of(self, node: Node, gpu: PciFunction) -> list[str]:
        found = []
        modes = await read_modes(node.host, gpu.address)
        card = await self.cluster.get(SRIOVGPUDevice, node.object(gpu.address))
        reported = (card.status.mode, dict(card.status.configured))
        there = (str(mode_of(gpu, modes)), dict(node.carried(gpu.address)))
        if reported != there:
            found.append(f"{gpu.address} tells {reported}, and is {there}")
        if list(card.status.vf_addresses) != [str(one) for one in gpu.vfs]:
            found.append(f"{gpu.address} tells other functions than it has")
        found += _answer(card, met=None)
        with contextlib.suppress(NotFoundError):
            mig = await self.cluster.get(MigConfiguration, node.object(gpu.address))
            exist = Counter(f"MIG {one.profile}" for one in modes.instances)
            told_of = {one.name: len(one.vgpu_ids) for one in mig.status.profile_status}
            if {name: count for name, count in told_of.items() if count} != dict(exist):
                found.append(f"{gpu.address}: {told_of} is told of {dict(exist)}")
            found += _answer(mig, met=None)
        return found

    def wrong_in(self, layout: Any) -> list[str]:
        found = []
        for entry in layout.status.gpus:
            if entry.observed_generation != layout.metadata.generation:
                found.append(f"{entry.name} is not answered")
            if entry.state == LAYOUT_DONE:
                node = next(one for one in self.nodes if one.name == entry.node_name)
                there = next(
                    node.carried(gpu.address)
                    for gpu in node.gpus()
                    if node.object(gpu.address) == entry.name
                )
                wanted: Counter[str] = Counter()
                for one in layout.spec.vgpus:
                    wanted[one.profile] += one.count
                if there != wanted:
                    found.append(f"{entry.name} is told to be done with {dict(there)}")
            if entry.state == LAYOUT_IN_PROGRESS and not entry.message:
                found.append(f"{entry.name} waits without saying what for")
        return found


def _answer(obj: Any, *, met: bool | None) -> list[str]:
    """What is wrong with the answer to a spec that is met or not; None: as the object says."""
    name, ready = obj.metadata.name, find_condition(obj.status.conditions, "Ready")
    if ready is None or ready.observed_generation != obj.metadata.generation:
        return [f"{name} is not answered"]
    if ready.reason == "InProgress":
        return [f"{name} is in progress"]
    if not ready.reason or not ready.message:
        return [f"{name} does not say why"]
    if met is not None and met != (ready.status == "True"):
        return [f"{name} says {ready.reason} {ready.status}, and is {'' if met else 'not '}met"]
    return []


@pytest.fixture(autouse=True)
def impatient(cluster: Any) -> None:
    """Agents that look again soon at what has no events."""
    cluster.timing = Timing(retry=0.2, put_back=0.05, sum=0.01)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    made = Network()
    real = Client.call

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        if not made.is_due():
            return await real(self, method, path, *args)
        if made.answered:
            await real(self, method, path, *args)
            raise UnreachableError("the answer was lost")
        raise ApiError(500, "InternalError", "a fault")

    monkeypatch.setattr(Client, "call", call)
    return made


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_any_series_of_desired_states_ends_as_asked_or_says_why_not(
    cluster: Any, simulated: Any, network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [Node(cluster, name, partial(simulated, model, name)) for name, model in MODELS.items()]
    for node in nodes:
        await node.start()
    life = Life(cluster, nodes, network, SEED)
    for number in range(1, DESIRED_STATES + 1):
        await life.desired()
        for node in nodes:
            with contextlib.suppress(Killed):
                node.check_machines()
        if number % BETWEEN_RESTS == 0:
            await life.rest()
    assert len(life.reported) > DESIRED_STATES // 2
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
