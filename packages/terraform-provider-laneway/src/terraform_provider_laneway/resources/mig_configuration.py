"""`laneway_mig_configuration`: the GPU instances of a GPU in MIG mode."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.api import MigConfiguration
from laneway.changes import instances, specs
from laneway.changes.writing import Change, applied, in_force
from laneway.core.mig.profiles import bare_name
from laneway.core.phrases import closest, few
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from laneway.views.answers import answer_of
from terraform_provider_laneway import gpus, holders, mistakes
from terraform_provider_laneway.problems import ProblemError
from terraform_provider_laneway.resource import ManagedResource
from terraform_provider_laneway.values import COUNTS, TEXT, State

_CONFIGURATIONS = served(MigConfiguration)
_MOST = 8


class MigInstances(ManagedResource):
    """All GPU instances of a GPU."""

    name: ClassVar[str] = "mig_configuration"
    key: ClassVar[tuple[str, ...]] = ("gpu",)
    subject: ClassVar[str] = "instances"
    about: ClassVar[str] = (
        "All GPU instances of a GPU that is in MIG mode (`laneway_sriov_gpu` sets the mode). "
        "Instances that nothing uses are created and deleted in place. Destroying it deletes them, "
        "once no VM has a vGPU in one."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "gpu",
            TEXT,
            required=True,
            requires_replace=True,
            description="The GPU: the name of its SRIOVGPUDevice, which is that of its "
            "MigConfiguration, or `NODE/ADDRESS`.",
        ),
        Attribute(
            "instances",
            COUNTS,
            required=True,
            description='How many GPU instances of each profile: `{ "1g.10gb" = 2 }`.',
        ),
        Attribute("node", TEXT, computed=True, description="The node of the GPU."),
        Attribute("address", TEXT, computed=True, description="PCI address of the GPU."),
    )

    def mistakes(self, config: State) -> list[ProblemError]:
        return mistakes.counts(config, "instances", _MOST)

    async def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        gpu = await gpus.find(client, config["gpu"])
        try:
            mig = await client.get(_CONFIGURATIONS, gpu.name)
        except NotFoundError:
            return  # It may be there once the GPU is in MIG mode.
        wrong = _unknown(mig, config["instances"])
        for problem in wrong:
            yield problem
        if not wrong and _asked(mig) != config["instances"]:
            fields = instances.fields(mig, _bare(config["instances"]))
            await specs.write(client, _CONFIGURATIONS, gpu.name, fields, dry_run=True)

    async def look(self, client: Client, state: State) -> State | None:
        if (gpu := await gpus.seen(client, state["gpu"])) is None:
            return None
        try:
            mig = await client.get(_CONFIGURATIONS, gpu.name)
        except NotFoundError:
            return None
        if not mig.spec.enabled:
            return None
        written = {bare_name(name): name for name in state.get("instances") or {}}
        return {
            "id": gpu.name,
            "gpu": state["gpu"],
            "instances": {written.get(name, name): n for name, n in _asked(mig).items()},
            "node": gpu.node,
            "address": gpu.address,
        }

    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        del current
        wanted = _bare(planned["instances"])
        await self._written(client, planned["gpu"], wanted, self.patience(planned))

    async def remove(self, client: Client, current: State) -> None:
        if (gpu := await gpus.seen(client, current["gpu"])) is None:
            return
        try:
            mig = await client.get(_CONFIGURATIONS, gpu.name)
        except NotFoundError:
            return
        if not mig.spec.enabled:
            return
        seconds = self.patience(current)
        names = [one.metadata.name for one in gpu.vgpus]
        fields = instances.fields(mig, None)
        await holders.released(
            client,
            names,
            lambda: specs.write(client, _CONFIGURATIONS, gpu.name, fields, dry_run=True),
            seconds,
        )
        await self._written(client, current["gpu"], None, seconds)

    async def _written(
        self, client: Client, which: str, wanted: dict[str, int] | None, seconds: int
    ) -> None:
        """Store what is wanted and wait for the agent. Raises ProblemError, ChangeError."""
        gpu = await gpus.find(client, which)
        try:
            mig = await client.get(_CONFIGURATIONS, gpu.name)
        except NotFoundError:
            raise ProblemError(
                "No GPU instances",
                f"The cluster has no MigConfiguration {gpu.name}. A GPU that can be divided has "
                f"one: laneway gpu disable {gpu.title} --mode MIG",
                ["gpu"],
            ) from None
        if wrong := _unknown(mig, wanted or {}):
            raise wrong[0]
        fields = instances.fields(mig, wanted)
        spec = {"enabled": mig.spec.enabled, "profileSpec": _profiles(mig, asked=True)}
        found = {"enabled": True, "profileSpec": _profiles(mig, asked=False)}
        answer = answer_of(mig.status, mig.metadata.generation)
        change = Change(
            resource=_CONFIGURATIONS,
            plural="migconfiguration",
            name=gpu.name,
            gpu=gpu,
            before=in_force(
                {key: spec[key] for key in fields}, found=found, refused=answer.kind == "refused"
            ),
            changes=_asked(mig) != wanted or not mig.spec.enabled,
        )
        outcome = await applied(
            client,
            change,
            lambda: specs.write(client, _CONFIGURATIONS, gpu.name, fields),
            lambda obj, generation: answer_of(obj.status, generation),
            waiting=gpus.waiting(client, gpu, seconds),
        )
        gpus.settled(outcome, ["instances"])


def _bare(counts: State) -> dict[str, int]:
    return {bare_name(name): count for name, count in counts.items()}


def _asked(mig: MigConfiguration) -> dict[str, int]:
    return {bare_name(one.name): one.requested for one in mig.spec.profile_spec if one.requested}


def _profiles(mig: MigConfiguration, *, asked: bool) -> list[dict[str, Any]]:
    """The list of a spec: as it is, or with the instances that exist."""
    if asked:
        known = [(one.name, one.id, one.requested) for one in mig.spec.profile_spec]
    else:
        known = [(one.name, one.id, len(one.vgpu_ids)) for one in mig.status.profile_status]
    return [{"name": name, "id": number, "requested": count} for name, number, count in known]


def _unknown(mig: MigConfiguration, counts: State) -> list[ProblemError]:
    """Profiles that the GPU does not have, where those that it has are known."""
    known = [bare_name(one.name) for one in mig.status.profile_status]
    found = []
    for name in counts if known else ():
        if bare_name(name) not in known:
            meant = closest(bare_name(name), known)
            hint = f"Is it {few(meant)}?" if meant else f"Its profiles are {few(known)}."
            words = f"The GPU has no GPU instances {name[:40]}. {hint}"
            found.append(ProblemError("No such profile", words, ["instances", (name,)]))
    return found
