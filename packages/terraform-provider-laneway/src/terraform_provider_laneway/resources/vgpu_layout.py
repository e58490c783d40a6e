"""`laneway_vgpu_layout`: all vGPUs of the GPUs that it selects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.api import VGPULayout
from laneway.changes import specs, trial
from laneway.changes.errors import TooLateError, UnfinishedError
from laneway.changes.vgpus import claimed, known
from laneway.controllers.devices.layout import selection
from laneway.core.gpu.modes import Mode
from laneway.core.layout.desired import Selection
from laneway.core.phrases import few
from laneway.core.vgpu import spelling
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, NotFoundError
from laneway.views.answers import Answer
from laneway.views.gpus import Gpu
from terraform_provider_laneway import gpus, holders, layouts, mistakes
from terraform_provider_laneway.problems import ProblemError, incomplete, refused
from terraform_provider_laneway.resource import ManagedResource
from terraform_provider_laneway.values import (
    COUNTS,
    FLAG,
    TEXT,
    TEXT_MAP,
    TEXT_SET,
    TEXTS,
    State,
    or_unset,
)

_MOST = 64
_MODES = tuple(one for one in Mode if one.has_vfs)


class VgpuLayout(ManagedResource):
    """A layout."""

    name: ClassVar[str] = "vgpu_layout"
    key: ClassVar[tuple[str, ...]] = ("name",)
    subject: ClassVar[str] = "vgpus"
    about: ClassVar[str] = (
        "All vGPUs of every GPU that it selects. Their virtual functions are enabled and their "
        "modes set as the profiles need it. Destroying it removes the vGPUs, once no VM has one."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "name",
            TEXT,
            required=True,
            requires_replace=True,
            description="Name of the VGPULayout.",
        ),
        Attribute(
            "vgpus",
            COUNTS,
            required=True,
            description='How many vGPUs of each profile every GPU has: `{ "A2-4Q" = 4 }`.',
        ),
        Attribute(
            "gpus",
            TEXT_SET,
            optional=True,
            description="Names of the SRIOVGPUDevices. Default: all GPUs of the nodes.",
        ),
        Attribute(
            "device_ids",
            TEXT_SET,
            optional=True,
            description="PCI device ids of the GPUs, four lower-case hex digits. Default: any.",
        ),
        Attribute(
            "nodes", TEXT_SET, optional=True, description="Names of the nodes. Default: all nodes."
        ),
        Attribute(
            "node_labels",
            TEXT_MAP,
            optional=True,
            description="Labels that the nodes have. Default: any.",
        ),
        Attribute(
            "mode",
            TEXT,
            optional=True,
            description=f"How the GPUs are shared: {few(f'`{one}`' for one in _MODES)}"
            ". Default: as the profiles need it.",
        ),
        Attribute(
            "take_over",
            FLAG,
            optional=True,
            description="Replace vGPUs that single VGPUDevices request. Default: `false`.",
        ),
        Attribute(
            "when_possible",
            FLAG,
            optional=True,
            description="Also store what is refused because a GPU is in use, to be applied once "
            "that ends. Default: `false`.",
        ),
        Attribute(
            "selected_gpus",
            TEXTS,
            computed=True,
            description="Names of the SRIOVGPUDevices that the layout configures.",
        ),
    )

    def mistakes(self, config: State) -> list[ProblemError]:
        return mistakes.counts(config, "vgpus", _MOST) + mistakes.mode(config, _MODES)

    async def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        spec, stored = _spec(config), await layouts.stored(client, config["name"])
        if stored is not None and _written(stored) == spec:
            return
        selected = await layouts.selected(client, _selection(config))
        for problem in _unknown_names(config, selected):
            yield problem
        unknown: list[str] = []
        others = await layouts.others(client, config["name"], selected, unknown)
        for why in unknown:
            yield incomplete(why)
        for words in (*others, *_claimed(selected)):
            yield refused(words, [_by(config)])
        if stored is None:
            await trial.make(client, config["name"], {**spec, "dryRun": False}, dry_run=True)
        else:
            body = _replacing(stored, spec)
            await specs.write(client, layouts.LAYOUTS, config["name"], body, dry_run=True)
        if selected and not config.get("when_possible"):
            async with trial.layout(client, spec) as made:
                answer = layouts.answer_of(selected, made.metadata.generation, trial.refusal_words)
                _, said = await layouts.waited(
                    client, made.metadata.name, selected, answer, gpus.TRIAL_SECONDS
                )
            if said.kind == "refused":
                yield refused(said.message, ["vgpus"])

    async def look(self, client: Client, state: State) -> State | None:
        stored = await layouts.stored(client, state["name"])
        if stored is None:
            return None
        spec = stored.spec
        selected = await layouts.selected(client, selection(stored))
        written = state.get("vgpus") or {}
        return {
            "id": state["name"],
            "name": state["name"],
            "vgpus": {
                gpus.as_written(selected, written, one.profile)
                if one.profile not in written
                else one.profile: one.count
                for one in spec.vgpus
            },
            "gpus": _kept(state, "gpus", list(spec.gpu_selector.names)),
            "device_ids": _kept(state, "device_ids", list(spec.gpu_selector.device_ids)),
            "nodes": _kept(state, "nodes", list(spec.node_selector.names)),
            "node_labels": _kept(state, "node_labels", dict(spec.node_selector.match_labels)),
            "mode": spec.mode or None,
            "take_over": or_unset(state, "take_over", spec.take_over, default=False),
            "when_possible": or_unset(state, "when_possible", spec.when_possible, default=False),
            "selected_gpus": [gpu.name for gpu in selected],
        }

    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        name, spec = planned["name"], {**_spec(planned), "dryRun": False}
        before = await layouts.stored(client, name)
        if current is not None and before is not None:
            stored = await specs.write(client, layouts.LAYOUTS, name, _replacing(before, spec))
        else:
            try:
                stored = await trial.make(client, name, spec)
            except AlreadyExistsError:
                raise ProblemError(
                    "Exists already",
                    f"VGPULayout {name} exists, and Terraform has not made it. To manage it with "
                    f"Terraform: terraform import ADDRESS {name}",
                    ["name"],
                ) from None
        said = await self._answered(client, stored, self.patience(planned))
        if said.kind != "refused" or stored.spec.when_possible:
            return
        if current is None or before is None:
            raise UnfinishedError(f"VGPULayout {name} is refused: {said.message}", _watch(name))
        await specs.write(client, layouts.LAYOUTS, name, _replacing(stored, _written(before)))
        raise refused(f"{said.message} VGPULayout {name} is as before.", ["vgpus"])

    async def remove(self, client: Client, current: State) -> None:
        name, seconds = current["name"], self.patience(current)
        stored = await layouts.stored(client, name)
        if stored is None:
            return
        selected = await layouts.selected(client, selection(stored))
        owned = [
            gpu for gpu in selected if any(one.metadata.name == name for one, _ in gpu.layouts)
        ]
        nothing = dict(_NOTHING)
        if stored.spec.vgpus and owned:
            await holders.released(
                client,
                [vgpu.metadata.name for gpu in owned for vgpu in gpu.vgpus],
                lambda: specs.write(client, layouts.LAYOUTS, name, nothing, dry_run=True),
                seconds,
            )
            emptied = await specs.write(client, layouts.LAYOUTS, name, nothing)
            try:
                said = await self._answered(client, emptied, seconds)
            except UnfinishedError:
                await specs.write(client, layouts.LAYOUTS, name, _written(stored))
                raise
            if said.kind == "refused":
                await specs.write(client, layouts.LAYOUTS, name, _written(stored))
                raise refused(said.message, ["vgpus"])
        try:
            await client.delete(layouts.LAYOUTS, name)
        except NotFoundError:
            return

    async def _answered(self, client: Client, stored: VGPULayout, seconds: int) -> Answer:
        """What the agents of all GPUs that are selected now say. Raises UnfinishedError."""
        name, generation = stored.metadata.name, stored.metadata.generation
        chosen = await layouts.selected(client, selection(stored))
        if not chosen:
            return Answer("done")
        answer = layouts.answer_of(chosen, generation, lambda one: one.words)
        try:
            _, said = await layouts.waited(client, name, chosen, answer, seconds)
        except TooLateError as error:
            raise UnfinishedError(error, _watch(name)) from None
        return said


def _watch(name: str) -> str:
    return f"To watch: kubectl get vgpulayout {name} --watch"


_NOTHING: Mapping[str, Any] = {"vgpus": [], "mode": "", "whenPossible": False}
"""What a layout says before it is deleted."""


def _spec(state: State) -> State:
    """All fields of the spec that a configuration decides."""
    return {
        "nodeSelector": {
            "names": sorted(state.get("nodes") or ()),
            "matchLabels": dict(state.get("node_labels") or {}),
        },
        "gpuSelector": {
            "names": sorted(state.get("gpus") or ()),
            "deviceIDs": sorted(state.get("device_ids") or ()),
        },
        "mode": state.get("mode") or "",
        "vgpus": [{"profile": name, "count": n} for name, n in sorted(state["vgpus"].items())],
        "takeOver": bool(state.get("take_over")),
        "whenPossible": bool(state.get("when_possible")),
    }


def _written(stored: VGPULayout) -> State:
    """The same fields of a layout that exists."""
    was = stored.spec
    return _spec(
        {
            "nodes": was.node_selector.names,
            "node_labels": was.node_selector.match_labels,
            "gpus": was.gpu_selector.names,
            "device_ids": was.gpu_selector.device_ids,
            "mode": was.mode,
            "vgpus": {one.profile: one.count for one in was.vgpus},
            "take_over": was.take_over,
            "when_possible": was.when_possible,
        }
    )


def _replacing(stored: VGPULayout, spec: State) -> State:
    """The fields as a patch, which leaves no label in the object that is not in them."""
    gone = dict.fromkeys(stored.spec.node_selector.match_labels)
    labels = {**gone, **spec["nodeSelector"]["matchLabels"]}
    return {**spec, "nodeSelector": {**spec["nodeSelector"], "matchLabels": labels}}


def _selection(state: State) -> Selection:
    return Selection(
        labels=dict(state.get("node_labels") or {}),
        nodes=frozenset(state.get("nodes") or ()),
        names=frozenset(state.get("gpus") or ()),
        device_ids=frozenset(state.get("device_ids") or ()),
    )


def _by(state: State) -> str:
    """The attribute that selects GPUs."""
    given = (one for one in ("gpus", "nodes", "node_labels", "device_ids") if state.get(one))
    return next(given, "vgpus")


def _unknown_names(config: State, selected: Sequence[Gpu]) -> list[ProblemError]:
    """Profiles that no selected GPU has, and GPUs that do not exist."""
    found = []
    there = {gpu.name for gpu in selected}
    if missing := sorted(set(config.get("gpus") or ()) - there):
        words = f"There is no SRIOVGPUDevice {few(missing)} among the selected nodes."
        found.append(ProblemError("No such GPU", words, ["gpus"]))
    names = [one for gpu in selected for one in known(gpu)]
    for profile in config["vgpus"] if any(names) else ():
        if not any(spelling.matches(profile, one) for one in names) and " " not in profile:
            try:
                gpus.in_full(selected[0], {profile: 1}, ["vgpus", (profile,)])
            except ProblemError as problem:
                found.append(problem)
    return found


def _claimed(selected: Sequence[Gpu]) -> list[str]:
    return [words for gpu in selected for words in claimed(gpu)]


def _kept(state: State, attribute: str, found: Any) -> Any:
    """What is empty stays as it was written: not at all, or as an empty list."""
    return found or (None if state.get(attribute) is None else found)
