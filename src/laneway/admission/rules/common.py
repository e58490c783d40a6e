"""What the rules of all kinds have in common.

- A client that only carries out what a user was allowed to do is not judged again: the cluster's
  garbage collector, and Laneway's own agent and manager where they make and delete objects, or have
  a desired state follow its card to another slot. Other desired states of theirs (they carry out
  layouts) are judged like any other, but only by what they cannot see themselves: who names a
  device. Nor does the collector see that, and an owner can be anything: what is in use it does
  not take away.
- Objects of a node that is gone may be deleted, and so may one that is being deleted.
- What was stored before there were rules may stay: an update that leaves the spec as it is is not
  judged by it.

A rule says what it finds one by one: a refusal, or a text that warns. It never raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, assert_never

from laneway.admission.request import Operation, Request, Requester
from laneway.admission.users import users_of
from laneway.admission.verdict import ALLOWED, Asks, Granted, Rules, Verdict, nothing
from laneway.admission.world import World
from laneway.core import keys, names
from laneway.core.pci import PciAddress
from laneway.core.refusals import (
    DeviceInUse,
    FieldImmutable,
    NameMismatch,
    PciDeviceNotFound,
    Refusal,
)
from laneway.kube.resource import KubeObject, T, T_co

Finding = Refusal | str
"""What speaks against a write, or the warnings for it."""

COLLECTORS = (
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
)
"""Who deletes what depends on something deleted."""


@dataclass(frozen=True, slots=True)
class Case(Generic[T_co]):
    """One write, and what is known about it."""

    request: Request[T_co]
    name: str
    world: World
    granted: Granted

    @property
    def requester(self) -> Requester:
        return self.request.requester

    @property
    def trusted(self) -> bool:
        return is_trusted(self.request, self.world)


Findings = Iterable[Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Generic[T]):
    """The rules of one kind, by what is done."""

    node_of: Callable[[T, World], str]
    """On which node an object's device is; empty where not known."""
    create: Callable[[Case[T], T], Findings] = lambda _case, _new: ()
    """Not asked of those who are trusted."""
    update: Callable[[Case[T], T, T], Findings] = lambda _case, _old, _new: ()
    delete: Callable[[Case[T], T], Findings] = lambda _case, _old: ()
    """Asked only where anything could speak against it."""
    collect: Callable[[Case[T], T], Findings] = lambda _case, _old: ()
    """Deletion because the owner is gone."""
    asks: Asks[T] = nothing


def rules(parts: Parts[T]) -> Rules[T]:
    """The rules as the server wants them."""

    def judge(request: Request[T], world: World, granted: Granted) -> Verdict:
        return _verdict(_findings(parts, request, world, granted))

    return Rules(judge, parts.asks)


def _findings(parts: Parts[T], request: Request[T], world: World, granted: Granted) -> Findings:
    old, new = request.old, request.new
    case = Case(request, name_of(request), world, granted)
    match request.operation:
        case Operation.CREATE if new is not None:
            return () if case.trusted else parts.create(case, new)
        case Operation.UPDATE if old is not None and new is not None:
            follows = is_collected(request) or (case.trusted and _is_move(old, new))
            return () if follows else parts.update(case, old, new)
        case Operation.DELETE if old is not None:
            free = (
                case.trusted
                or old.metadata.deletion_timestamp
                or node_gone(world, parts.node_of(old, world))
            )
            judge = parts.collect if is_collected(request) else parts.delete
            return () if free else judge(case, old)
        case Operation.CREATE | Operation.UPDATE | Operation.DELETE:
            return ()  # Without the object that it is about, there is nothing to judge.
        case _:
            assert_never(request.operation)


def _verdict(findings: Findings) -> Verdict:
    refusals: dict[Refusal, None] = {}
    warnings: dict[str, None] = {}
    for one in findings:
        if isinstance(one, str):
            warnings[one] = None
        else:
            refusals[one] = None
    if not (refusals or warnings):
        return ALLOWED
    return Verdict(tuple(refusals), tuple(warnings))


# ---------------------------------------------------------------------------------- who asks


def is_trusted(request: Request[KubeObject], world: World) -> bool:
    """Whether Laneway itself asks."""
    return request.requester.username in world.trusted


def is_collected(request: Request[KubeObject]) -> bool:
    """Whether the cluster's garbage collector asks."""
    return request.requester.username in COLLECTORS


def _is_move(old: KubeObject, new: KubeObject) -> bool:
    """Whether a desired state only follows its card to another slot."""
    version = old.metadata.resource_version
    return version != "" and new.metadata.annotations.get(keys.ANNOTATION_MOVED) == version


# -------------------------------------------------------------------------------- what is asked


def name_of(request: Request[KubeObject]) -> str:
    """Of the object; of one that is to be made the API server may not say it next to the object."""
    found = (one.metadata.name for one in (request.new, request.old) if one is not None)
    return request.name or next(found, "")


def fixed(kind: str, name: str, fields: Iterable[tuple[str, str, str, str]]) -> Findings:
    """Refusals of changes to what an object is about.

    `fields`: what it is called, its path, what it was and what it is to be. What was never said may
    be said once.
    """
    for called, path, before, after in fields:
        if before not in ("", after):
            yield FieldImmutable(kind, name, called, path, before)


def place(name: str, address: str, node: str) -> NameMismatch | None:
    """What is wrong where a name does not stand for the device that an object speaks of."""
    return None if name and pci_name(node, address) == name else NameMismatch(name, address, node)


def pci_name(node: str, address: str) -> str:
    """Name of the PCIDevice there; empty where the address is none."""
    try:
        return names.pci_object_name(node, PciAddress.parse(address)) if node else ""
    except ValueError:
        return ""


def there(world: World, name: str) -> Findings:
    """That there is no such PCI function, if so."""
    if world.pci_devices.get(name) is None:
        yield PciDeviceNotFound(name)


# --------------------------------------------------------------------------------- what is known


def node_gone(world: World, node: str) -> bool:
    """Whether a node is not there any more, or not for long."""
    if not node:
        return False
    found = world.nodes.get(node)
    return found is None or found.metadata.deletion_timestamp is not None


def in_use(world: World, devices: Iterable[str]) -> Findings:
    """Those of the devices that a VM or pod has or names."""
    for device in devices:
        if users := users_of(world, device):
            yield DeviceInUse(device, users)
