"""Who has which device of the node, as its kubelet says.

The kubelet is asked when it has handed something out, when a pod that has or wants devices of ours
comes, goes or ends, and otherwise now and then. It still names pods that have ended until it has
cleaned up after them, so a device whose pod has ended is free; while it names a pod that is not
known any more, or not yet, it is asked again soon.

When the kubelet does not answer, what it said last stays: silence never makes a device free. Nor
does it when a kubelet that has just started tells of no pods, because it has not heard of any yet:
what a pod had it still has until it ends, and until a pod that runs has what it requests the
kubelet is asked again, and the other holders are not known.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping

from laneway.api import Allocation
from laneway.core.device_plugin.health import Device
from laneway.core.device_plugin.offer import Owner
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import vm_of
from laneway.kube.pods import Pod
from laneway.kubelet.errors import KubeletError
from laneway.kubelet.pod_resources import PodResources

log = logging.getLogger(__name__)

SLOW_SECONDS = 60.0
"""How often to ask although nothing has happened."""
SOON_SECONDS = 1.0
"""How soon to ask again while something is about to change without an event."""
REST_SECONDS = 0.1
"""Pause between two questions: a node that starts has dozens of pods at once."""

_ENDED = ("Succeeded", "Failed")


class Allocations:
    """What the kubelet says. Run `run` in a task."""

    def __init__(
        self,
        folder: str,
        pods: Informer[Pod],
        ours: Callable[[str], bool],
        changed: Callable[[], None],
    ) -> None:
        self.owners: dict[Device, Owner] | None = None
        """The holder of each device; None until the kubelet has answered once."""
        self.wanting: frozenset[tuple[str, str, str]] = frozenset()
        """Pods that have devices and are still to get others: namespace, name, resource."""
        self.lacking: frozenset[str] = frozenset()
        """Resources of which a pod that runs has less than it requests, which cannot be."""
        self.asked = asyncio.Event()
        """Set once the kubelet has been asked, whether it answered or not."""
        self.problem = "it has not been read yet"
        """Why the kubelet did not answer last; empty when it did."""
        self._uids: dict[Device, str] = {}
        """Of the pods that got something, as far as the API server has them."""
        self._vms: dict[Owner, str] = {}
        """What pods run. A pod that is deleted has its devices until the kubelet cleaned up."""
        self._resources = PodResources(folder)
        self._pods = pods
        self._ours = ours
        self._changed = changed
        self._wake = asyncio.Event()
        self._asking = asyncio.Lock()
        self._soon = False

    def want(self) -> None:
        """Ask soon."""
        self._wake.set()

    async def read(self, *, fresh: bool = False) -> None:
        """Ask now. Raises KubeletError.

        `fresh`: something was allocated that the kubelet does not report yet.
        """
        async with self._asking:
            try:
                said = await self._resources.owners()
            except KubeletError as error:
                if self.problem != str(error):
                    log.warning("cannot read which pods have which devices: %s", error)
                self.problem = str(error)
                raise
            self.problem = ""
            self._take(said, fresh=fresh)

    def known(self, owner: Owner) -> bool:
        """Whether the pod is one that the API server has, too."""
        return self._pods.store.get(owner.pod, owner.namespace) is not None

    def allocation(self, owner: Owner) -> Allocation:
        """The same with the VM that the pod runs."""
        return Allocation(namespace=owner.namespace, pod=owner.pod, virtual_machine=self._vm(owner))

    async def run(self, fresh: Callable[[], bool]) -> None:
        """Keep asking until cancelled. `fresh`: see `read`."""
        self._pods.subscribe(self._pod_changed)
        while True:
            self._wake.clear()
            try:
                await self.read(fresh=fresh())
            except KubeletError:
                self._soon = True
            self.asked.set()
            try:
                async with asyncio.timeout(SOON_SECONDS if self._soon else SLOW_SECONDS):
                    await self._wake.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(REST_SECONDS)

    def _take(self, said: Mapping[Device, Owner], *, fresh: bool) -> None:
        owners = {device: owner for device, owner in said.items() if not self._has_ended(owner)}
        has = _counted(owners)
        unreported = {
            device: owner
            for device, owner in (self.owners or {}).items()
            if device not in said and self._still_there(device, owner, has)
        }
        self._soon = fresh or bool(unreported) or len(owners) < len(said)
        owners |= unreported
        wanting, lacking = self._still_wanting(owners), self._found_lacking(owners)
        self._soon = self._soon or bool(wanting) or bool(lacking)
        self._soon = self._soon or not all(map(self.known, owners.values()))
        self._uids = {
            device: self._has_it_now(device, owner, said)
            or self._got_by(device, owner)
            or self._uid(owner)
            for device, owner in owners.items()
        }
        self._vms = {owner: self._vm(owner) for owner in owners.values()}
        if (owners, wanting, lacking) != (self.owners, self.wanting, self.lacking):
            self.owners, self.wanting, self.lacking = owners, wanting, lacking
            self._changed()

    def _has_ended(self, owner: Owner) -> bool:
        pod = self._pods.store.get(owner.pod, owner.namespace)
        return pod is not None and pod.status.phase in _ENDED

    def _vm(self, owner: Owner) -> str:
        pod = self._pods.store.get(owner.pod, owner.namespace)
        return self._vms.get(owner, "") if pod is None else vm_of(pod.metadata)

    def _uid(self, owner: Owner) -> str:
        pod = self._pods.store.get(owner.pod, owner.namespace)
        return "" if pod is None else pod.metadata.uid

    def _got_by(self, device: Device, owner: Owner) -> str:
        """The uid of the pod that got a device; another one may have its name by now."""
        same = (self.owners or {}).get(device) == owner
        return self._uids.get(device, "") if same else ""

    def _has_it_now(self, device: Device, owner: Owner, said: Mapping[Device, Owner]) -> str:
        """The uid of the pod that surely has a device that the kubelet names, if any has.

        What a pod of the same name left may be named still, but not after another one runs that
        requests the same: for that one the kubelet names its own.
        """
        pod = self._pods.store.get(owner.pod, owner.namespace)
        runs = pod is not None and pod.status.phase == "Running" and _desired_states(pod)[device[0]]
        return self._uid(owner) if runs and device in said else ""

    def _still_there(
        self, device: Device, owner: Owner, has: Counter[tuple[str, str, str]]
    ) -> bool:
        """Whether the pod that had a device is there, runs, and requests more than is reported."""
        pod = self._pods.store.get(owner.pod, owner.namespace)
        return (
            pod is not None
            and self._got_by(device, owner) in ("", pod.metadata.uid)
            and not self._has_ended(owner)
            and has[owner.namespace, owner.pod, device[0]] < _desired_states(pod)[device[0]]
        )

    def _found_lacking(self, owners: Mapping[Device, Owner]) -> frozenset[str]:
        has = _counted(owners)
        return frozenset(
            resource
            for pod in self._pods.store
            if pod.status.phase == "Running"
            for resource, count in _desired_states(pod).items()
            if self._ours(resource)
            and has[pod.metadata.namespace, pod.metadata.name, resource] < count
        )

    def _still_wanting(self, owners: Mapping[Device, Owner]) -> frozenset[tuple[str, str, str]]:
        has = _counted(owners)
        wanting = set()
        for namespace, name in {(one.namespace, one.pod) for one in owners.values()}:
            pod = self._pods.store.get(name, namespace)
            if pod is None or pod.status.phase != "Pending":
                continue
            for resource, count in _desired_states(pod).items():
                if self._ours(resource) and has[namespace, name, resource] < count:
                    wanting.add((namespace, name, resource))
        return frozenset(wanting)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before and after and before.status.phase == after.status.phase:
            return
        pod = after or before
        if pod is None:
            return
        name = pod.metadata.namespace, pod.metadata.name
        has = any((one.namespace, one.pod) == name for one in (self.owners or {}).values())
        if has or any(map(self._ours, _desired_states(pod))):
            self._wake.set()


def _counted(owners: Mapping[Device, Owner]) -> Counter[tuple[str, str, str]]:
    """How many devices pods have: by namespace, name and resource."""
    return Counter((one.namespace, one.pod, resource) for (resource, _), one in owners.items())


def _desired_states(pod: Pod) -> Counter[str]:
    """How many devices a pod requests while it runs, by resource."""
    found: Counter[str] = Counter()
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for resource, quantity in container.resources.limits.items():
            if "/" in resource and str(quantity).isdecimal():
                found[resource] += int(quantity)
    return found
