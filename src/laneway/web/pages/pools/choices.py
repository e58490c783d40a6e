"""The devices that a pool can be given, and what each of them is called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from laneway.admission.world import RESOURCE, World
from laneway.core.ledger.ledger import Ledger
from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import line, short_name
from laneway.core.vgpu.profiles import framebuffer_mib
from laneway.views import machine_pools as views
from laneway.views.machine_pools import Available
from laneway.views.memory import gib
from laneway.views.order import natural
from laneway.web.pages.pools.seen import Pool
from laneway.web.pages.vms.resources import kind_of
from laneway.web.rendering import Texts

_NODES = 4
"""How many nodes are named for a device type."""


class Choice(NamedTuple):
    """An entry of the list of device types."""

    resource: str
    title: str
    """`A2-4Q`"""
    memory: str
    """`4 GiB`; empty for what has none, or none that is known."""
    family: str
    """`vgpu` or `pci`."""
    available: Available


def choices(pool: Pool, ledger: Ledger, world: World, seen: frozenset[str]) -> list[Choice]:
    """What a pool can have, of families that the user sees; what it has already always."""
    found = []
    for one in views.available(*pool, ledger):
        resource = one.resource
        family = _family(resource, ledger, world)
        is_own = resource in pool.state.pool.devices
        if is_own or family in seen & {"vgpu", "pci"}:
            title, memory = title_of(resource, world), memory_of(resource, world)
            found.append(Choice(resource, title, memory, family, one))
    return sorted(found, key=lambda one: (one.family != "vgpu", natural(one.title)))


def _family(resource: str, ledger: Ledger, world: World) -> str:
    if is_vgpu_resource(resource):
        return "vgpu"
    homes = ledger.homes.get(resource, ())
    stocks = (ledger.stocks[node, resource] for node in homes)
    first = next((one.name for stock in stocks for one in stock.devices), "")
    return kind_of(resource, world, first).family


def title_of(resource: str, world: World) -> str:
    """The short name of a resource, also of one that no node has."""
    found = line(kind_of(resource, world).title)
    if found != resource or not is_vgpu_resource(resource):
        return found
    return short_name(_profile(resource))


def memory_of(resource: str, world: World) -> str:
    """The framebuffer of a vGPU."""
    vgpu = world.vgpus.first(RESOURCE, resource)
    profile = vgpu.status.configure_vgpu_type_name if vgpu is not None else _profile(resource)
    size = framebuffer_mib(profile) if vgpu is not None or is_vgpu_resource(resource) else 0
    return gib(size) if size else ""


def _profile(resource: str) -> str:
    return resource.partition("/")[2].replace("_", " ")


def option(texts: Texts, one: Choice) -> str:
    """An entry of the list in words."""
    title = f"{one.title} ({one.memory})" if one.memory else one.title
    if not one.available.total:
        return texts("pools.option_none", title=title)
    return texts("pools.option", title=title, count=one.available.total)


def by_node(texts: Texts, nodes: Sequence[tuple[str, int]]) -> str:
    """The devices by node: `node1: 2, node2: 1`."""
    shown = ", ".join(f"{name}: {count}" for name, count in nodes[:_NODES])
    more = len(nodes) - _NODES
    return f"{shown}, {texts.count('pools.more_nodes', more)}" if more > 0 else shown


def known(found: Iterable[Choice], ledger: Ledger) -> frozenset[str]:
    """What may be requested. Whether there is enough of it is for the judge to say."""
    return frozenset((*ledger.homes, *(one.resource for one in found)))
