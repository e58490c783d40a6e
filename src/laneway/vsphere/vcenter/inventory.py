"""The inventory as the property collector tells it, and which hosts an update changes.

No requests are made here. Hosts point to their cluster, clusters and folders to what they are in;
only what an update touches is put together again, and reported only if it came out different.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.vms import VgpuBacking
from laneway.vsphere.port import Changed
from laneway.vsphere.vcenter.config_targets import NOTHING, Target
from laneway.vsphere.vcenter.escaping import unescaped
from laneway.vsphere.vcenter.hosts import PATHS, Around, Facts, assembled
from laneway.vsphere.vcenter.properties import ref_of
from laneway.vsphere.vcenter.pyvmomi import vim
from laneway.vsphere.vcenter.vms import attached

WATCHED: Mapping[Any, Sequence[str]] = {
    vim.HostSystem: PATHS,
    vim.ComputeResource: ("name", "parent", "environmentBrowser", "configurationEx"),
    vim.Folder: ("name", "parent"),
    vim.Datacenter: ("name", "parent"),
}

DEVICES = "config.hardware.device"
"""Of VMs on boards: which vGPUs they have, which the boards do not tell."""


class Box(msgspec.Struct):
    """What hosts are in: a cluster, the resource of a lone host, a folder or a datacenter."""

    kind: Any
    name: str = ""
    parent: str = ""
    browser: str = ""
    drs: bool = False
    groups: dict[str, frozenset[str]] = {}
    """Host groups by name."""


class Inventory:
    """What was reported so far."""

    def __init__(self) -> None:
        self._facts: dict[str, Facts] = {}
        self._boxes: dict[str, Box] = {}
        self._targets: dict[str, tuple[object, Target]] = {}
        self._vgpus: dict[str, tuple[str, ...]] = {}
        self._hosts: dict[str, Host] = {}
        self._touched: set[str] = set()
        self._gone: set[str] = set()

    def take(self, updates: Iterable[Any]) -> None:
        """`PropertyFilterUpdate`s, of one page or more."""
        for update in updates:
            for each in update.objectSet:
                ref = ref_of(each.obj)
                if each.kind == "leave":
                    self._leave(ref)
                elif isinstance(each.obj, vim.HostSystem):
                    self._host(ref, each.changeSet)
                elif isinstance(each.obj, vim.VirtualMachine):
                    for change in each.changeSet:
                        self.take_devices(ref, change.val)
                else:
                    self._box(ref, type(each.obj), each.changeSet)

    def take_devices(self, vm: str, devices: Iterable[Any] | None) -> None:
        """The devices of a VM that uses boards."""
        backings = (each.backing for each in attached(devices or ()))
        vgpus = tuple(each.profile for each in backings if isinstance(each, VgpuBacking))
        if self._vgpus.get(vm) != vgpus:
            self._vgpus[vm] = vgpus
            self._touched |= {ref for ref, facts in self._facts.items() if vm in facts.users()}

    def take_target(self, host: str, target: Target) -> None:
        """What `unread_targets` returned."""
        facts = self._facts.get(host)
        if facts is not None:
            self._targets[host] = (facts.offers(), target)
            self._touched.add(host)

    def users(self) -> frozenset[str]:
        """The VMs whose devices are to be known."""
        found = frozenset(vm for facts in self._facts.values() for vm in facts.users())
        for vm in self._vgpus.keys() - found:
            del self._vgpus[vm]
        return found

    def unread_targets(self) -> list[tuple[str, str]]:
        """Hosts whose configuration target is to be read (again), with their browsers."""
        request = []
        for ref in self._touched & self._facts.keys():
            facts = self._facts[ref]
            box = self._boxes.get(facts.parent)
            known = self._targets.get(ref)
            if (
                (facts.cards or facts.passed)
                and facts.connected
                and box
                and box.browser
                and (known is None or known[0] != facts.offers())
            ):
                request.append((ref, box.browser))
        return sorted(request)

    def changes(self, *, complete: bool = False) -> Changed | None:
        """The changes since the last call; None: there are none."""
        changed = []
        for ref in sorted(self._touched & self._facts.keys()):
            host = self._assembled(self._facts[ref])
            if self._hosts.get(ref) != host:
                self._hosts[ref] = host
                changed.append(host)
        gone = tuple(sorted(self._gone - self._facts.keys()))
        self._touched.clear()
        self._gone.clear()
        if changed or gone or complete:
            return Changed(tuple(changed), gone, complete)
        return None

    def _host(self, ref: str, changes: Iterable[Any]) -> None:
        facts = self._facts.get(ref)
        if facts is None:
            facts = self._facts[ref] = Facts(ref)
        for change in changes:
            facts.take(change.name, change.val)
        self._touched.add(ref)

    def _box(self, ref: str, kind: Any, changes: Iterable[Any]) -> None:
        box = self._boxes.setdefault(ref, Box(kind))
        for change in changes:
            match change.name:
                case "name":
                    box.name = unescaped(change.val or "")
                case "parent":
                    box.parent = ref_of(change.val)
                case "environmentBrowser":
                    box.browser = ref_of(change.val)
                case _:
                    box.drs, box.groups = _of_cluster(change.val)
        above = not issubclass(kind, vim.ComputeResource)
        self._touched |= {
            host for host, facts in self._facts.items() if above or facts.parent == ref
        }

    def _leave(self, ref: str) -> None:
        if self._facts.pop(ref, None) is not None:
            self._targets.pop(ref, None)
            self._hosts.pop(ref, None)
            self._gone.add(ref)
        self._boxes.pop(ref, None)

    def _chain(self, facts: Facts) -> list[Box]:
        """From the cluster of a host to the top."""
        chain: list[Box] = []
        at = facts.parent
        while (box := self._boxes.get(at)) is not None and len(chain) < len(self._boxes):
            chain.append(box)
            at = box.parent
        return chain

    def _assembled(self, facts: Facts) -> Host:
        compute = self._boxes.get(facts.parent)
        around = Around(
            datacenter=next(
                (box.name for box in self._chain(facts) if issubclass(box.kind, vim.Datacenter)), ""
            )
        )
        if compute is not None:
            cluster = issubclass(compute.kind, vim.ClusterComputeResource)
            around = around._replace(
                cluster=compute.name if cluster else facts.name,
                cluster_ref=facts.parent,
                drs=compute.drs,
                groups_of=tuple(
                    sorted(name for name, hosts in compute.groups.items() if facts.ref in hosts)
                ),
            )
        target = self._targets.get(facts.ref, (None, NOTHING))[1]
        return assembled(facts, around, target, self._vgpus)


def _of_cluster(config: Any) -> tuple[bool, dict[str, frozenset[str]]]:
    """Whether DRS places by itself, and the host groups. A lone host has no such configuration."""
    if not isinstance(config, vim.cluster.ConfigInfoEx):
        return False, {}
    drs = config.drsConfig
    manual = vim.cluster.DrsConfigInfo.DrsBehavior.manual
    return (
        bool(drs and drs.enabled and drs.defaultVmBehavior != manual),
        {
            group.name: frozenset(map(ref_of, group.host))
            for group in config.group
            if isinstance(group, vim.cluster.HostGroup)
        },
    )
