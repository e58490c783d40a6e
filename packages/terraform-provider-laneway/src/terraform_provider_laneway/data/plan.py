"""`laneway_plan`: what a change would do, and what speaks against it. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.api import VGPULayout
from laneway.changes import trial, vgpus
from laneway.changes.errors import ChangeError, RefusedError
from laneway.changes.machine_pools import Edit, Wanted, planned, refuse
from laneway.changes.vgpus import Desired
from laneway.cli import fleet
from laneway.controllers.machine_pools import look as looking
from laneway.controllers.machine_pools.reading import MOST_MACHINES
from laneway.core.gpu.modes import Mode
from laneway.core.machine_pools.device_info import MOST
from laneway.kube.client import Client
from laneway.kube.rancher import WORKSPACE
from laneway.kube.resource import served
from laneway.views import machine_pools as views
from terraform_provider_laneway import gpus, mistakes
from terraform_provider_laneway.data_source import DataSource
from terraform_provider_laneway.problems import ProblemError
from terraform_provider_laneway.values import (
    COUNTS,
    FLAG,
    NUMBER,
    TEXT,
    TEXTS,
    State,
    is_unknown,
)


class Plan(DataSource):
    """A change that is only planned: of the vGPUs of a GPU, or of a machine pool."""

    name: ClassVar[str] = "plan"
    about: ClassVar[str] = (
        "What a change of a GPU's vGPUs, or of a machine pool, would do, and what speaks against "
        "it. The agent of the node is asked; nothing is changed."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "gpu",
            TEXT,
            optional=True,
            description="The GPU: the name of its SRIOVGPUDevice, or `NODE/ADDRESS`.",
        ),
        Attribute(
            "vgpus",
            COUNTS,
            optional=True,
            description="How many vGPUs of each profile the GPU would have.",
        ),
        Attribute(
            "mode", TEXT, optional=True, description="The mode of the GPU. Default: as it is."
        ),
        Attribute(
            "cluster",
            TEXT,
            optional=True,
            description="The guest cluster of a machine pool: `NAME` or `NAMESPACE/NAME`.",
        ),
        Attribute("pool", TEXT, optional=True, description="The machine pool."),
        Attribute(
            "devices",
            COUNTS,
            optional=True,
            description="How many devices of each resource its machines would have.",
        ),
        Attribute(
            "machines",
            NUMBER,
            optional=True,
            description="How many machines it would have. Default: as it is.",
        ),
        Attribute(
            "possible", FLAG, computed=True, description="Whether nothing speaks against it."
        ),
        Attribute("steps", TEXTS, computed=True, description="What would be done, in order."),
        Attribute("refusals", TEXTS, computed=True, description="What speaks against it."),
        Attribute(
            "room",
            COUNTS,
            computed=True,
            description="How many vGPUs of each profile the GPU has room for now.",
        ),
        Attribute(
            "room_afterwards",
            COUNTS,
            computed=True,
            description="The same after the change. Only for time-sliced vGPUs.",
        ),
    )

    def mistakes(self, config: State) -> list[ProblemError]:
        found = [
            *mistakes.counts(config, "vgpus", MOST),
            *mistakes.requests(config, "devices", MOST),
            *mistakes.number(config, "machines", 0, MOST_MACHINES),
            *mistakes.mode(config, (one for one in Mode if one.has_vfs)),
        ]
        if any(is_unknown(config.get(name)) for name in ("gpu", "cluster")):
            return found
        if (config.get("gpu") is None) == (config.get("cluster") is None):
            words = "Give gpu with vgpus, or cluster with pool and devices."
            found.append(ProblemError("What is planned is not clear", words, ["gpu"]))
        elif config.get("gpu") is not None and config.get("vgpus") is None:
            found.append(ProblemError("Missing vgpus", "Give vgpus; {} is none.", ["gpu"]))
        elif config.get("cluster") is not None and config.get("pool") is None:
            found.append(ProblemError("Missing pool", "Give the pool of the cluster.", ["cluster"]))
        return found

    async def found(self, client: Client, config: State, unknown: list[str]) -> State:
        if config.get("gpu") is not None:
            return await self._of_gpu(client, config, unknown)
        return await self._of_pool(client, config, unknown)

    async def _of_gpu(self, client: Client, config: State, unknown: list[str]) -> State:
        gpu = await gpus.find(client, config["gpu"])
        full = gpus.in_full(gpu, config["vgpus"], ["vgpus"])
        desired = Desired(full, config.get("mode"))
        layouts = await fleet.readable(client, served(VGPULayout), unknown)
        if refusals := list(vgpus.against(gpu, layouts, "this plan")):
            return _answer(refusals=refusals)
        own = vgpus.own_layout(gpu, layouts, "this plan")
        spec = vgpus.trial_spec(gpu, desired, own)
        found = await trial.ask(client, gpu, spec, seconds=gpus.TRIAL_SECONDS)
        return _answer(
            steps=list(found.steps),
            refusals=list(found.refusals),
            room=dict(found.fits),
            room_afterwards=dict(found.fits_afterwards),
        )

    async def _of_pool(self, client: Client, config: State, unknown: list[str]) -> State:
        other = await self._clusters.client(self.settings.managing)
        namespace, _, _ = config["cluster"].rpartition("/")
        managed = await looking.management(other, namespace or WORKSPACE)
        supply = await looking.harvester(client)
        unknown += (*managed.unknown, *supply.unknown)
        wanted = Wanted(
            config["cluster"], config["pool"], config.get("devices"), config.get("machines")
        )
        try:
            edit = planned(managed, supply, wanted)
        except RefusedError as error:
            return _answer(refusals=list(error.reasons))
        except ChangeError as error:
            raise ProblemError("Not planned", str(error), ["cluster"]) from None
        try:
            refuse(edit)
        except RefusedError as error:
            return _answer(steps=list(_steps(edit)), refusals=list(error.reasons))
        return _answer(steps=list(_steps(edit)))


def _steps(edit: Edit) -> Iterator[str]:
    """What a change of a pool writes, and what Rancher does then."""
    pool, config = edit.pool.pool, edit.config.metadata.name
    for field in edit.fields:
        yield f"set {field} of {edit.pool.spec.machine_config_ref.kind} {config}"
    if edit.quantity is not None:
        yield f"set the number of machines of pool {pool.name} to {edit.quantity}"
    for machine in pool.leaving:
        done = "removes" if machine.stays else "replaces"
        yield f"Rancher {done} machine {machine.vm.name}"
    if new := views.to_create(pool) - sum(not one.stays for one in pool.leaving):
        yield f"Rancher creates {new} machines"


def _answer(
    *,
    steps: list[str] | None = None,
    refusals: list[str] | None = None,
    room: dict[str, int] | None = None,
    room_afterwards: dict[str, int] | None = None,
) -> State:
    return {
        "possible": not refusals,
        "steps": steps or [],
        "refusals": refusals or [],
        "room": room or {},
        "room_afterwards": room_afterwards or {},
    }
