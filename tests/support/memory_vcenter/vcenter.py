"""The vCenter: what is ordered of it, what tests do to it, and the truth about it."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.vms import Fault
from laneway.vsphere.port import Clone, Reconfiguration, UnreachableVCenterError
from laneway.vsphere.vcenter.pyvmomi import vim
from support.memory_vcenter import vms
from support.memory_vcenter.starting import candidates
from support.memory_vcenter.tasks import Mischief, Pace, ReachedError, Task, Tasks, fits
from support.memory_vcenter.vms import Vm
from support.memory_vcenter.world import (
    Cluster,
    EsxiHost,
    Gpu,
    Inventory,
    RefusedError,
    device_group,
)
from support.vcenter import SAMPLE, Gpus

SERVERS: dict[str, MemoryVCenter] = {}
"""Those that run, by what users call them."""
_PORTS = itertools.count(20_001)


class MemoryVCenter:
    """See `support.vcenter.Simulator`, whose arguments and methods these are."""

    def __init__(
        self,
        inventory: Gpus | None = None,
        *,
        clusters: int = 1,
        hosts: int = 3,
        vms: int = 2,
        standalone: int = 1,
        drs: bool = True,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        templates: Mapping[str, Mapping[str, Any]] | None = None,
        device_groups: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        api_version: str = "8.0.3.0",
        hardware_version: str = "vmx-17",
        user: str = "user",
        password: str = "pass",
        port: int = 0,
    ) -> None:
        self.user, self.password = user, password
        self.host, self.port = "127.0.0.1", port or next(_PORTS)
        self.thumbprint = ":".join(f"{byte:02X}" for byte in uuid.uuid4().bytes + b"four")
        self.ca = ""
        self.api = api_version
        self.uuid = str(uuid.uuid4())
        self.tasks_ = Tasks()
        self.inventory = Inventory()
        self.clusters: dict[str, Cluster] = {}
        self.hosts: dict[str, EsxiHost] = {}
        self.all: dict[str, Vm] = {}
        self.changed = asyncio.Event()
        """Replaced, and set, whenever a follower has news."""
        self.broken = 0
        """How often connections were cut."""
        self._counted: Counter[str] = Counter()
        self._drops: list[list[Any]] = []
        self._guests: dict[str, Any] = {"addresses": True, "delay": 0, "shutdown": True}
        self._others: Mapping[str, Sequence[str]] = {}
        self._addresses = itertools.count(1)
        self._refs = itertools.count(1)
        if device_groups is None and inventory is None:
            device_groups = SAMPLE["deviceGroups"]
        gpus = SAMPLE["hosts"] if inventory is None else inventory
        names = [f"DC0_C{i}" for i in range(clusters)]
        named = {name: {"drs": drs} | dict((settings or {}).get(name, {})) for name in names}
        for i in range(standalone):
            self._add_host(
                self._add_cluster(f"DC0_H{i}", lone=True), f"DC0_H{i}", gpus, device_groups
            )
        for name, more in named.items():
            cluster = self._add_cluster(name, more)
            for i in range(hosts):
                self._add_host(cluster, f"{name}_H{i}", gpus, device_groups)
            for i in range(vms):
                self._add_vm(f"{name}_RP0_VM{i}", cluster, int(hardware_version[4:]))
        for i in range(standalone):
            for j in range(vms):
                cluster = self.clusters[f"DC0_H{i}"]
                self._add_vm(f"DC0_H{i}_VM{j}", cluster, int(hardware_version[4:]))
        self._add_templates(SAMPLE["templates"] if templates is None else templates)

    # ---- the world ----

    def _add_cluster(
        self, name: str, more: Mapping[str, Any] | None = None, *, lone: bool = False
    ) -> Cluster:
        ref, said = self.inventory.add_compute(name, lone=lone), dict(more or {})
        groups = {name: [] for name in said.get("vmGroups", {})}
        self.clusters[name] = Cluster(
            ref,
            name,
            lone,
            said.get("drs", True) and not lone,
            said.get("hostGroups", {}),
            groups,
            said.get("mustRun", {}),
        )
        return self.clusters[name]

    def _add_host(self, cluster: Cluster, name: str, gpus: Any, groups: Any) -> None:
        ref = self.inventory.add(vim.HostSystem, name, cluster.ref, "host")
        offered = tuple(map(device_group, (groups or {}).get(name, ())))
        self.hosts[ref] = EsxiHost(
            ref, name, cluster, [Gpu.of(one) for one in gpus.get(name, ())], offered
        )

    def _add_vm(self, name: str, cluster: Cluster, hardware: int) -> Vm:
        host = next(one for one in self.hosts.values() if one.cluster is cluster)
        pool = self.inventory.root_pool(cluster.ref)
        vm = Vm(
            self._ref(),
            name,
            self.inventory.vm_folder,
            pool,
            host,
            str(uuid.uuid4()),
            hardware=hardware,
            on=True,
            macs=(vms.new_mac(),),
        )
        self.all[vm.ref] = vm
        return vm

    def _add_templates(self, templates: Mapping[str, Mapping[str, Any]]) -> None:
        for name, said in templates.items():
            at = said.get("host", "")
            fitting = [one for one in self.hosts.values() if not at or one.name == at]
            source = self._add_vm(name, fitting[0].cluster, 17)
            source.on, source.template, source.host = False, True, fitting[0]
            source.efi = said.get("firmware", "efi") == "efi"
            source.nested = said.get("nestedHV", False)
            if version := said.get("version"):
                source.hardware = int(version[4:])
            source.attach([*vms.template_devices(said.get("devices", ()))])

    def _ref(self) -> str:
        return f"vm-{next(self._refs)}"

    @property
    def server(self) -> str:
        return f"{self.host}:{self.port}"

    # ---- life ----

    def start(self) -> Self:
        SERVERS[self.server] = self
        return self

    def stop(self) -> None:
        SERVERS.pop(self.server, None)
        self.cut_connections()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- orders ----

    def count(self, method: str, entity: str = "") -> None:
        """A request comes in. Raises where that goes wrong on purpose."""
        self._counted[method] += 1
        self.drop_now(method, entity, after=False)
        self.tasks_.fail(method, entity, kind="fault")

    def drop_now(self, method: str, entity: str, *, after: bool) -> None:
        for one in self._drops:
            pattern, vm, when, _ = one
            if fits(pattern, method) and fits(vm, entity) and when == after:
                one[3] -= 1
                if not one[3]:
                    self._drops.remove(one)
                raise UnreachableVCenterError(f"{self.server} cannot be reached: cut")

    def order(self, method: str, target: str, entity: str, work: Callable[[], str]) -> Task:
        self.count(method, entity)

        def carried_out() -> str:
            try:
                return work()
            finally:
                self.tell()

        task = self.tasks_.start(method, target, entity, carried_out)
        self.drop_now(method, entity, after=True)
        return task

    def clone(self, clone: Clone, source: Vm, folder: str, pool: str, host: str) -> str:
        there = {one.name for one in self.all.values() if one.folder == folder}
        if clone.name in there:
            raise RefusedError("DuplicateName", f"The name '{clone.name}' already exists.")
        owner = self.inventory.pool_owner[pool]
        at = self._clone_host(source, owner, host)
        self.tasks_.fail("CloneVM_Task", clone.name, at.name)
        vm = vms.cloned(source, clone, self._ref(), host=at, folder=folder, pool=pool)
        self.all[vm.ref] = vm
        return vm.ref

    def _clone_host(self, source: Vm, compute: str, host: str) -> EsxiHost:
        hosts = [one for one in self.hosts.values() if one.cluster.ref == compute]
        if host:
            if self.hosts[host] not in hosts:
                raise RefusedError("InvalidArgument", "A specified parameter was not correct: host")
            self.hosts[host].refuse()
            return self.hosts[host]
        usable = [one for one in hosts if one.usable]
        if not usable:
            raise RefusedError(
                "NoCompatibleHost", "No host is compatible with the virtual machine."
            )
        return source.host if source.host in usable else usable[0]

    def reconfigure(self, vm: Vm, change: Reconfiguration) -> str:
        groups = (group for host in self.hosts.values() for group in host.groups)
        vms.reconfigure(vm, change, {group.name: len(group.parts) for group in groups})
        return ""

    def upgrade(self, vm: Vm, version: int) -> str:
        vms.upgrade(vm, version)
        return ""

    def relocate(self, vm: Vm, host: str, pool: str) -> str:
        to = self.hosts[host]
        to.refuse()
        if vm.on and vm.devices:
            raise RefusedError(
                "DeviceNotSupported",
                "Currently connected device 'PCI device 0' is not supported on the destination.",
            )
        self.tasks_.fail("RelocateVM_Task", vm.name, to.name)
        vm.host, vm.pool = to, pool or vm.pool
        return ""

    def power_on(self, vm: Vm) -> str:
        vms.refuse_start(vm)
        for host in candidates(vm, tuple(self.hosts.values())):
            given = host.take(vm.ref, vm.devices) if host.offers(vm.groups) else None
            if given is None:
                continue
            try:
                self.tasks_.fail("PowerOnVM_Task", vm.name, host.name)
                vms.refuse_mapping(vm, host)
            except RefusedError:
                host.drop(vm.ref)
                raise
            vms.started(vm, host, given)
            self._speak(vm)
            return ""
        raise vms.no_room(vm)

    def power_off(self, vm: Vm) -> str:
        if not vm.on:
            raise ReachedError("InvalidPowerState", "Cannot be performed (Powered off).")
        vms.stopped(vm)
        return ""

    def shut_down(self, vm: Vm) -> None:
        if vm.on and self._guests["shutdown"]:
            vms.stopped(vm)
            self.tell()

    def destroy(self, vm: Vm) -> str:
        if vm.on:
            raise RefusedError("InvalidPowerState", "Cannot be performed (Powered on).")
        del self.all[vm.ref]
        for cluster in self.clusters.values():
            for group in cluster.vm_groups.values():
                group[:] = [one for one in group if one != vm.ref]
        return ""

    # ---- guests ----

    def _speak(self, vm: Vm) -> None:
        if self._others:
            self._tell_address(vm, "")
        if not self._guests["addresses"]:
            return
        number = next(self._addresses)
        address, start = f"10.64.{number // 250 % 250}.{number % 250 + 2}", vm.starts
        if not self._guests["delay"]:
            self._tell_address(vm, address)
            return

        def later() -> None:
            if vm.on and vm.starts == start:
                self._tell_address(vm, address)

        asyncio.get_running_loop().call_later(self._guests["delay"] / 1000, later)

    def _tell_address(self, vm: Vm, address: str) -> None:
        own, own_address = [address] if address else [], bool(address)
        reported: list[tuple[str, tuple[str, ...]]] = []
        for mac, others in self._others.items():
            if mac:
                reported.append((mac, tuple(others)))
            else:
                own += others
            address = address or next(iter(others), "")
        vm.reported = (*reported, (vm.macs[0] if vm.macs else "", tuple(own)))
        vm.main, vm.has_address = address, vm.has_address or own_address
        self.tell()

    # ---- news ----

    def seen(self) -> dict[str, Host]:
        return {ref: host.seen(self.api) for ref, host in self.hosts.items()}

    def tell(self) -> None:
        """Followers look again."""
        before, self.changed = self.changed, asyncio.Event()
        before.set()

    # ---- the truth ----

    def state(self) -> dict[str, Any]:
        names = {ref: vm.name for ref, vm in self.all.items()}
        hosts = sorted(self.hosts.values(), key=lambda one: one.name)
        return {
            "vms": [vm.truth() for vm in sorted(self.all.values(), key=lambda one: one.name)],
            "gpus": [
                {"host": host.name, "id": gpu.id, "name": gpu.name, "label": gpu.label}
                | {
                    "mode": gpu.mode,
                    "users": {names[vm]: [*held] for vm, held in gpu.users.items()},
                }
                for host in hosts
                for gpu in host.gpus
            ],
            "hosts": [
                {"ref": one.ref, "name": one.name, "connected": one.connected}
                | {"maintenance": one.maintenance}
                for one in hosts
            ],
            "tasks": self.tasks_.seen(),
            "requests": dict(self._counted),
        }

    def vms(self) -> dict[str, dict[str, Any]]:
        return {vm["name"]: vm for vm in self.state()["vms"]}

    def users(self) -> dict[tuple[str, str], dict[str, list[str]]]:
        return {(g["host"], g["id"]): g["users"] for g in self.state()["gpus"] if g["users"]}

    def tasks(self, method: str = "") -> list[dict[str, Any]]:
        return [one for one in self.tasks_.seen() if method in {"", one["method"]}]

    def requests(self, method: str) -> int:
        return self._counted[method]

    # ---- what goes slowly, and wrong ----

    def hold(
        self, method: str = "*", vm: str = "*", *, after: bool = False, queued: bool = False
    ) -> None:
        self.tasks_.paces.append(Pace(method, vm, hold=True, after=after, queued=queued))

    def delay(self, milliseconds: int, method: str = "*", vm: str = "*") -> None:
        self.tasks_.paces.append(Pace(method, vm, milliseconds / 1000))

    def release(self, method: str = "*", vm: str = "*") -> None:
        self.tasks_.release(method, vm)

    def fail(
        self,
        method: str,
        fault: str,
        text: str = "",
        *,
        vm: str = "",
        host: str = "",
        times: int = 1,
        at_once: bool = False,
        **_details: Any,
    ) -> None:
        kind = "fault" if at_once else "task"
        said = Fault(fault, text or "vCenter gives no text")
        self.tasks_.mischief.append(Mischief(kind, method, vm, host, times, said))

    def drop(self, method: str, *, vm: str = "", after: bool = False, times: int = 1) -> None:
        self._drops.append([method, vm, after, times])

    def calm(self) -> None:
        self.tasks_.mischief.clear()
        self._drops.clear()

    def expire_sessions(self) -> None:
        """A session that has ended is made again by the next request, so no caller notices."""

    def cut_connections(self) -> None:
        self.broken += 1
        self.tell()

    def forget_tasks(self) -> None:
        self.tasks_.forget()

    # ---- what others do to it ----

    def _vm(self, name: str) -> Vm:
        return next(one for one in self.all.values() if one.name == name)

    def detach(self, vm: str, key: int = 0) -> None:
        vms.detach(self._vm(vm), key)
        self.tell()

    def remove(self, vm: str) -> None:
        """An operator deletes a VM."""
        found = self._vm(vm)
        vms.stopped(found)
        self.destroy(found)
        self.tell()

    def change_host(
        self,
        name: str,
        *,
        connected: bool | None = None,
        maintenance: bool | None = None,
        default_graphics: str = "",
    ) -> None:
        host = self._host(name)
        host.connected = host.connected if connected is None else connected
        host.maintenance = host.maintenance if maintenance is None else maintenance
        host.default_graphics = default_graphics or host.default_graphics
        self.tell()

    def _host(self, name: str) -> EsxiHost:
        return next(one for one in self.hosts.values() if one.name == name)

    def change_device(
        self, host: str, device: str, *, label: str | None = None, mode: str = ""
    ) -> None:
        gpu = next(one for one in self._host(host).gpus if one.id == device)
        gpu.label = gpu.label if label is None else label
        gpu.mode = mode or gpu.mode
        self.tell()

    def change_cluster(self, name: str, *, drs: bool) -> None:
        self.clusters[name].drs = drs
        self.tell()

    def unreadable(self, vm: str, unreadable: bool = True) -> None:
        self._vm(vm).readable = not unreadable
        self.tell()

    def guests(
        self,
        *,
        addresses: bool = True,
        delay: int = 0,
        shutdown: bool = True,
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._guests = {"addresses": addresses, "delay": delay, "shutdown": shutdown}
        self._others = others or {}
        for vm in self.all.values():
            if vm.on and not vm.has_address:
                self._speak(vm)
