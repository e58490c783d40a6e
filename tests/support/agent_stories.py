"""Stories of one agent, its GPU and its API server, all of which may fail.

What is made up is what happens; `test_agent_laws` says what must hold when things have calmed down.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from laneway.api import SRIOVGPUDevice, VGPUDevice, find_condition
from laneway.controllers.metrics import MetricFamilies
from laneway.controllers.timing import Timing
from laneway.core import names
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.programs import SRIOV_MANAGE, Completed
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.errors import ApiError, KubeError, UnreachableError
from laneway.kube.resource import served
from laneway.roles.agent import Agent
from laneway.sim.spec import build, parse_spec
from support.plans import hardware_of, in_thread

SECONDS = 60.0
PROFILES = {
    "a2": ("NVIDIA A2-4Q", "NVIDIA A2-8Q", "NVIDIA A2-16Q", "NVIDIA A2-99Q", ""),
    "l40s": ("NVIDIA L40S-24Q", "NVIDIA L40S-48Q", "NVIDIA L40S-12Q", "nonsense", ""),
}
FUNCTIONS = 4


@dataclasses.dataclass
class Faults:
    """What goes wrong: a countdown to a failing request or write, and to the kill."""

    request: int = 0
    answered: bool = False
    """Whether the failing request is carried out although its answer is lost."""
    write: int = 0
    kill: int = 0
    killed: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)
    begun: set[str] = dataclasses.field(default_factory=set)
    """Objects that report an attempt, and of no outcome yet."""

    def calm(self) -> None:
        self.request = self.write = self.kill = 0

    def count(self, name: str) -> bool:
        """Whether it is due now."""
        left = getattr(self, name)
        if left:
            setattr(self, name, left - 1)
        return bool(left == 1)


class Machine:
    """A simulated host on which every write of the agent is seen, may fail, or may kill it."""

    def __init__(self, model: str, faults: Faults) -> None:
        self.model = model
        self.host = build(parse_spec(model), model)
        self.faults = faults
        self.dead = threading.Event()
        self.loop = asyncio.get_running_loop()
        self.allowed: set[str] = set()
        """Functions where a user has requested a change since a vGPU was made without Laneway."""
        self.may_disable = True
        """Whether a user has requested it since the GPU was enabled without Laneway."""
        self.wrong: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    def write(self, path: str, data: str) -> None:
        """The agent's writes; in between the machine may be killed."""
        if self.faults.count("write"):
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        dies = self.faults.count("kill")
        before = carried(scan(self.host))
        self.host.write(path, data)
        after = carried(scan(self.host))
        self.wrong += [f for f in before if f not in after and f not in self.allowed]
        if dies:
            self.loop.call_soon_threadsafe(self.faults.killed.set)
            self.dead.wait()

    async def write_within(self, path: str, data: str, _seconds: float) -> None:
        """`write`, for a plan that does not wait for ever."""
        await in_thread(self.write, path, data)

    async def run(self, argv: Sequence[str], seconds: float) -> Any:
        """The agent's commands; those that change something count as writes."""
        if argv[0] != SRIOV_MANAGE:
            return await self.host.run(argv, seconds)
        if self.faults.count("write"):
            return Completed(1, "a fault")
        dies = self.faults.count("kill")
        before = scan(self.host).vgpus
        done = await self.host.run(argv, seconds)
        after = scan(self.host)
        lost = {v.address for v in before} - {v.address for v in after.vgpus}
        self.wrong += [str(v.address) for v in before if v.configured and v.address in lost]
        if lost and not self.may_disable:
            self.wrong.append(str(argv))
        if dies:
            self.faults.killed.set()
            await asyncio.Event().wait()
        return done

    def foreign(self, function: str, profile: str) -> None:
        """A vGPU is made or removed without Laneway."""
        vgpu = next((v for v in scan(self.host).vgpus if str(v.address) == function), None)
        if vgpu is None:
            return
        home = f"/sys/bus/pci/devices/{function}"
        kind = next((k for k in vgpu.creatable if k.name == profile), None)
        with contextlib.suppress(OSError):
            if vgpu.configured is not None and vgpu.framework == "mdev":
                self.host.write(f"/sys/bus/mdev/devices/{vgpu.configured.uuid}/remove", "1")
            elif vgpu.configured is not None:
                self.host.write(f"{home}/nvidia/current_vgpu_type", "0")
            elif kind is not None and vgpu.framework == "mdev":
                path = f"{home}/mdev_supported_types/{kind.id}/create"
                self.host.write(path, str(uuid.uuid4()))
                self.allowed.discard(function)
            elif kind is not None:
                self.host.write(f"{home}/nvidia/current_vgpu_type", kind.id)
                if (
                    object_name(self.model, function) not in self.faults.begun
                ):  # what an attempt made looks no different
                    self.allowed.discard(function)


class Unreliable(Client):
    """A client whose requests fail when it is their turn."""

    faults: Faults

    async def call(self, method: str, path: str, *args: Any) -> bytes:
        name = path.removesuffix("/status").rpartition("/")[2]
        begins = "InProgress" in repr(args)
        if begins:
            self.faults.begun.add(name)
        if not self.faults.count("request"):
            dies = method != "GET" and self.faults.count("kill")
            answer = await super().call(method, path, *args)
            if path.endswith("/status") and not begins:
                self.faults.begun.discard(name)
            if dies:
                self.faults.killed.set()
                await asyncio.Event().wait()
            return answer
        if self.faults.answered:
            await super().call(method, path, *args)
            raise UnreachableError("the answer was lost")
        raise ApiError(500, "InternalError", "a fault")


def object_name(node: str, function: str) -> str:
    return names.pci_object_name(node, PciAddress.parse(function))


def carried(inventory: Inventory) -> dict[str, str]:
    return {str(v.address): v.configured.type_name for v in inventory.vgpus if v.configured}


class Story:
    """One agent, its host, and what happens to them."""

    def __init__(
        self, model: str, client: Client, flaky: Unreliable, faults: Faults, folder: Path
    ) -> None:
        self.model = model
        self.folder = folder
        self.client = client
        self.flaky = flaky
        self.faults = faults
        self.machine = Machine(model, faults)
        found = scan(self.machine.host).vgpus
        self.address = str(found[0].parent)
        self.gpu = f"/sys/bus/pci/devices/{self.address}"
        self.functions = [str(v.address) for v in found][:FUNCTIONS]
        self.unplugged: list[Any] = []
        self.task: asyncio.Task[None] | None = None
        self.agent: Agent | None = None
        self.families = MetricFamilies()

    async def start(self) -> None:
        if self.task is not None and not self.task.done():
            return
        self.faults.killed.clear()
        self.machine.dead.clear()
        hardware = hardware_of(self.machine, self.folder)
        timing = Timing(retry=0.05)
        self.agent = Agent(self.model, hardware, self.flaky, self.families, timing=timing)
        self.task = asyncio.create_task(self.agent.run())

    async def stop(self) -> None:
        self.machine.dead.set()
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task
            self.task = None

    async def busy(self) -> None:
        """Let the agent work, until it dies if it is to die."""
        for _ in range(50):
            if self.faults.killed.is_set():
                await self.stop()
                return
            await asyncio.sleep(0)

    async def patch(self, function: str, spec: dict[str, Any]) -> None:
        resource, name = served(VGPUDevice), object_name(self.model, function)
        with contextlib.suppress(KubeError):
            before = await self.client.get(resource, name)
            if before.spec.enabled or spec.get("enabled"):
                self.machine.allowed.add(function)
            await self.client.patch(resource, name, {"spec": spec})

    async def step(self, what: str, *more: Any) -> None:
        """One event, and the agent's first moves after it."""
        await getattr(self, f"_{what}")(*more)
        await self.busy()

    async def _enable(self, number: int, profile: int) -> None:
        name = PROFILES[self.model][profile]
        await self.patch(self.functions[number], {"enabled": True, "vGPUTypeName": name})

    async def _disable(self, number: int) -> None:
        await self.patch(self.functions[number], {"enabled": False})

    async def _prepare(self, number: int, profile: int) -> None:
        name = PROFILES[self.model][profile]
        await self.patch(self.functions[number], {"vGPUTypeName": name})

    async def _foreign(self, number: int, profile: int) -> None:
        self.machine.foreign(self.functions[number], PROFILES[self.model][profile])

    async def _delete(self, number: int) -> None:
        with contextlib.suppress(KubeError):
            await self.client.delete(
                served(VGPUDevice), object_name(self.model, self.functions[number])
            )

    async def _gpu(self, on: bool) -> None:
        resource, name = served(SRIOVGPUDevice), object_name(self.model, self.address)
        with contextlib.suppress(KubeError):
            before = await self.client.get(resource, name)
            if before.spec.enabled or on:
                self.machine.may_disable = True
            await self.client.patch(resource, name, {"spec": {"enabled": on}})

    async def _manage(self, on: bool) -> None:
        """The GPU is switched without Laneway."""
        functions = scan(self.machine.host).functions
        if str(self.address) not in {str(f.address) for f in functions}:
            return
        with contextlib.suppress(KubeError):
            resource, name = served(SRIOVGPUDevice), object_name(self.model, self.address)
            gpu = await self.client.get(resource, name)
            answer = find_condition(gpu.status.conditions, "Ready")
            # Functions that come back while the desired state is worked on look no different.
            not_before = answer is not None and answer.reason == "Disabled"
            not_before = not_before and answer.observed_generation == gpu.metadata.generation
            done = self.machine.host.call([SRIOV_MANAGE, "-e" if on else "-d", self.address])
            if on and not_before and not done.status and "already" not in done.output:
                self.machine.may_disable = False

    async def _unplug(self) -> None:
        if not self.unplugged:
            self.unplugged = self.machine.host.unplug(self.gpu)

    async def _plug(self) -> None:
        if self.unplugged:
            self.machine.host.plug(self.unplugged)
            self.unplugged = []

    async def _restart(self) -> None:
        await self.stop()
        await self.start()

    async def _fail_request(self, number: int, answered: bool) -> None:
        self.faults.request, self.faults.answered = number, answered

    async def _fail_write(self, number: int) -> None:
        self.faults.write = number

    async def _kill(self, number: int) -> None:
        self.faults.kill = number

    async def _settle(self) -> None:
        with contextlib.suppress(TimeoutError):
            await self.settled(2)

    async def settled(self, seconds: float) -> None:
        async with asyncio.timeout(seconds):
            while True:
                if self.faults.killed.is_set():
                    await self.stop()
                await self.start()
                if not await self.problems():
                    return
                if self.agent is not None:
                    self.agent.observer.want()  # vendor VFIO announces no change
                await asyncio.sleep(0.01)

    async def problems(self) -> list[str]:
        """What is not yet as the laws have it."""
        resource = served(VGPUDevice)
        pages = [page async for page in self.client.list(resource)]
        objects = {
            o.spec.address: o
            for page in pages
            for o in (resource.decode(item) for item in page.items)
            if o.spec.node_name == self.model
        }
        inventory = scan(self.machine.host)
        found = {str(v.address): v for v in inventory.vgpus}
        resource = served(SRIOVGPUDevice)
        pages = [page async for page in self.client.list(resource)]
        gpus = [resource.decode(item) for page in pages for item in page.items]
        refused = {gpu.spec.address for gpu in gpus if not _is_met(gpu)}
        said = [f"{a}: no object" for a in found if a not in objects]
        alone = {a: _wrong_without_function(objects[a]) for a in objects.keys() - found.keys()}
        said += [f"{address}: {wrong}" for address, wrong in alone.items() if wrong]
        for address in found.keys() & objects.keys():
            waits = str(found[address].parent) in refused
            if wrong := _wrong(objects[address], found[address].configured, inventory, waits=waits):
                said.append(f"{address}: {wrong}")
        desired = {o.spec.parent_gpu_device_address for o in objects.values() if o.spec.enabled}
        for gpu in gpus:
            if gpu.spec.node_name == self.model and (wrong := _wrong_gpu(gpu, inventory, desired)):
                said.append(f"{gpu.spec.address}: {wrong}")
        return said

    async def calm(self) -> None:
        """No more faults: everything must come right by itself."""
        await self.busy()
        self.faults.calm()
        try:
            await self.settled(SECONDS)
        except TimeoutError:
            raise AssertionError(await self.problems()) from None


def _is_met(obj: Any) -> bool:
    ready = find_condition(obj.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


def _wrong_without_function(vgpu: Any) -> str:
    """Only a desired state stays without the function that it is about."""
    if not vgpu.spec.enabled:
        return "an object too many"
    ready = find_condition(vgpu.status.conditions, "Ready")
    if ready is None or ready.observed_generation != vgpu.metadata.generation:
        return "not answered"
    if vgpu.status.vgpu_status or vgpu.status.configure_vgpu_type_name:
        return "shows a vGPU"
    return "" if ready.reason in ("GpuDisabled", "DeviceNotFound") else f"says {ready.reason}"


def _wrong(vgpu: Any, current: Any, inventory: Inventory, *, waits: bool) -> str:
    status = vgpu.status
    ready = find_condition(status.conditions, "Ready")
    if ready is None or ready.observed_generation != vgpu.metadata.generation:
        return "not answered"
    if status.configure_vgpu_type_name != (current.type_name if current else ""):
        return f"status {status.configure_vgpu_type_name!r}, hardware {current}"
    asked = vgpu.spec.vgpu_type_name if vgpu.spec.enabled else ""
    met = (current is not None) == vgpu.spec.enabled and (
        current is None or asked in ("", current.type_name)
    )
    if met != (ready.status == "True"):
        return f"wishes {asked!r}, has {current}, says {ready.reason}"
    if met:
        return ""
    if ready.reason == "ProfileExhausted":
        one = next(v for v in inventory.vgpus if str(v.address) == vgpu.spec.address)
        if asked in {kind.name for kind in one.creatable}:
            return f"{asked} is possible"
        return ""
    allowed = {
        "ProfileMissing",
        "ProfileNotOffered",
        "UnmanagedVgpu",
        "UnmanagedProfile",
        "WriteFailed",
    }
    if waits:
        allowed.add("GpuNotReady")
    return "" if ready.reason in allowed else f"says {ready.reason}"


def _wrong_gpu(gpu: Any, inventory: Inventory, desired: set[str]) -> str:
    ready = find_condition(gpu.status.conditions, "Ready")
    if ready is None or ready.observed_generation != gpu.metadata.generation:
        return "not answered"
    address = gpu.spec.address
    vfs = [str(vf) for f in inventory.functions if str(f.address) == address for vf in f.vfs]
    if list(gpu.status.vf_addresses) != vfs:
        return f"status {gpu.status.vf_addresses}, hardware {vfs}"
    if (bool(vfs) is gpu.spec.enabled) != (ready.status == "True"):
        return f"wishes {gpu.spec.enabled}, has {len(vfs)}, says {ready.reason}"
    carrying = {str(v.parent) for v in inventory.vgpus if v.configured}
    right = {
        "Enabled": True,
        "Disabled": True,
        "UnmanagedVfs": True,
        "VgpusEnabled": address in desired,
        "DeviceInUse": address in carrying,
    }
    return "" if right.get(ready.reason) else f"says {ready.reason}"
