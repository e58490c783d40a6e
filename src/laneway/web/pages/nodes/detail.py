"""One node: what is wrong on it, its GPUs, its IOMMU groups, and how to examine it."""

from __future__ import annotations

import functools
from typing import NamedTuple

import msgspec

from laneway.api import Condition, PCIDevice
from laneway.controllers.doctor.facts import is_agent
from laneway.core import keys
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.views import state
from laneway.views.gpus import assemble
from laneway.views.memory import allocated
from laneway.views.preparation import can_be_approved
from laneway.web import holders
from laneway.web.caches import NODE, Change
from laneway.web.page import Context, NotFound, Page
from laneway.web.pages.hosts import reboot
from laneway.web.pages.hosts import rows as hosts
from laneway.web.pages.nodes.rows import Row
from laneway.web.pictures.iommu import Group, Member, Use, groups_of, iommu_map
from laneway.web.place import link
from laneway.web.problems import LISTS, problems_of, visible
from laneway.web.standing import DEVICES, node_names, node_of_object, standing
from laneway.web.visit import Visit

PROBLEMS = 25


class GpuLine(NamedTuple):
    """A GPU of the node."""

    name: str
    address: str
    board: str
    state: str
    mode: str
    memory: str
    vgpus: int


class Commands(NamedTuple):
    """How to examine the node."""

    in_pod: bool
    """In that of the agent; otherwise on the node itself."""
    file: str
    doctor: str
    capture: str


def _context(visit: Visit) -> Context:
    name, caches = visit.name("name"), visit.caches
    if name not in node_names(caches):
        raise NotFound(name)
    seen, now = visible(visit), standing(caches)
    row = Row(caches, now, seen, name)
    marker = caches.device_nodes.store.get(name)
    return {
        "title": name,
        "row": row,
        "problems": problems_of(visit, now.of_node(name, seen), PROBLEMS),
        "gpus": _gpus(visit, row) if "gpus" in seen and "vgpus" in seen else None,
        "map": _map(visit, name) if "pci" in seen else None,
        **_preparation(visit, name),
        "conditions": _conditions(row),
        "has_object": marker is not None and "device_nodes" in seen,
        "agent_conditions": list(marker.status.conditions)
        if marker is not None and "device_nodes" in seen
        else [],
        "custom_driver": (
            row.node.metadata.annotations.get(keys.ANNOTATION_CUSTOM_DRIVER, "") if row.node else ""
        ),
        "driver_label": keys.LABEL_DRIVER_NEEDED,
        "commands": _commands(visit, name),
        "concerns": functools.partial(_concerns, name),
    }


def _conditions(row: Row) -> list[Condition]:
    return list(row.node.status.conditions) if row.node else []


def _preparation(visit: Visit, name: str) -> Context:
    """How far the node is, where a HostPolicy selects it."""
    row = hosts.row_for(visit, name)
    if row is None:
        return {"preparation": None}
    return {
        "preparation": row,
        "may_allow": can_be_approved(row.one),
        "not_allowed": reboot.against(visit, row.one),
    }


def _gpus(visit: Visit, row: Row) -> list[GpuLine]:
    caches, name = visit.caches, row.name
    devices = caches.gpus.store.by(NODE, name)
    cards = (caches.pci.store.get(one.metadata.name) for one in devices)
    agent = caches.device_nodes.store.get(name)
    found = assemble(
        devices,
        caches.vgpus.store.by(NODE, name),
        cards=[card for card in cards if card is not None],
        claims=caches.claims.store.by(NODE, name),
        migs=caches.migs.store.by(NODE, name),
        layouts=caches.layouts.store,
        nodes={name: row.node} if row.node else {},
        agents=[agent] if agent is not None and "device_nodes" in visible(visit) else [],
    )
    return [
        GpuLine(
            gpu.name,
            gpu.address,
            gpu.board,
            state.state(gpu),
            state.mode(gpu),
            allocated(gpu),
            sum(bool(vgpu.status.vgpu_status) for vgpu in gpu.vgpus),
        )
        for gpu in found
    ]


def _map(visit: Visit, name: str) -> str:
    claims = visit.caches.claims.store.by(NODE, name)
    has = {claim.spec.address: claim.status.allocation for claim in claims}

    def href(device: PCIDevice) -> str:
        return link("pci", device.metadata.name)

    def shown(member: Member) -> Member:
        """Without the name of a VM that the user may not see."""
        holder = holders.of_allocation(visit, has.get(member.name.text))
        if member.use is not Use.HELD or holder is None:
            return member
        return msgspec.structs.replace(member, why=holder.text)

    groups = groups_of(visit.caches.pci.store.by(NODE, name), claims, href=href)
    seen = (Group(number=one.number, members=tuple(map(shown, one.members))) for one in groups)
    return iommu_map(seen, ids="group", say=visit.texts) if groups else ""


def _commands(visit: Visit, name: str) -> Commands:
    """In the pod of the agent, as far as the user may see pods there."""
    file = f"{name}.dump"
    for pod in visit.caches.agents.store:
        meta = pod.metadata
        if (
            pod.spec.node_name == name
            and is_agent(pod)
            and holders.may_see(visit, _pod(meta.namespace))
        ):
            run = f"kubectl --namespace {meta.namespace} exec {meta.name} --container agent --"
            return Commands(
                True, file, f"{run} laneway doctor node", f"{run} laneway capture - > {file}"
            )
    return Commands(False, file, "laneway doctor node", f"laneway capture {file}")


def _pod(namespace: str) -> Consumer:
    """Any pod of a namespace."""
    return Consumer(ConsumerKind.POD, namespace, "")


async def _load(visit: Visit) -> None:
    """Wait for the answers about pods where the agent is, and about the holders of devices."""
    name, caches = visit.name("name"), visit.caches
    pods = (pod for pod in caches.agents.store if pod.spec.node_name == name)
    agents = (_pod(pod.metadata.namespace) for pod in pods)
    claims = caches.claims.store.by(NODE, name)
    found = (holders.consumer_of(one.status.allocation) for one in claims)
    await holders.load_consumers(visit, (*agents, *filter(None, found)))


def _concerns(name: str, change: Change) -> bool:
    if change.kind == "agents":
        return name in {one.spec.node_name for one in (change.before, change.after) if one}
    if change.kind in ("layouts", "policies"):
        return True
    return name in {
        node_of_object(change.kind, one) for one in (change.before, change.after) if one
    }


PAGES = (
    Page(
        "/nodes/{name}",
        "node.html",
        _context,
        kinds=frozenset({*DEVICES, "nodes", "agents"}),
        needs=(LISTS["nodes"],),
        asks=(*LISTS.values(), hosts.ALLOW),
        prepare=_load,
    ),
)
