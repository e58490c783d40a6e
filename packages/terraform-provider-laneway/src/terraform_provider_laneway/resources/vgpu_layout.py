"""`laneway_vgpu_layout`: all vGPUs of the GPUs that it selects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.api import VGPULayout, to_builtins
from laneway.changes import specs, trial
from laneway.changes.errors import NotInstalledError, TooLateError, UnfinishedError
from laneway.changes.vgpus import claimed, known
from laneway.changes.waiting import awaited
from laneway.cli import fleet
from laneway.controllers.devices.layout import claimant, claims, selection
from laneway.core.gpu.modes import Mode
from laneway.core.layout.desired import Selection, owner, selects_gpu, selects_node
from laneway.core.phrases import few
from laneway.core.refusals import GpuOwnedByLayout
from laneway.core.vgpu import spelling
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, NotFoundError
from laneway.kube.resource import served
from laneway.views.answers import Answer, entry_of, of_layout
from laneway.views.gpus import Gpu
from terraform_provider_laneway import gpus, holders
from terraform_provider_laneway.problems import ProblemError, refused
from terraform_provider_laneway.resource import ManagedResource, counts_in
from terraform_provider_laneway.values import (
    COUNTS,
    FLAG,
    TEXT,
    TEXT_MAP,
    TEXT_SET,
    TEXTS,
    State,
    is_unknown,
    or_unset,
)

_LAYOUTS = served(VGPULayout)
_MOST = 64
_TRIAL_SECONDS = 30


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
            description=f"How the GPUs are shared: {few(f'`{one}`' for one in Mode if one.has_vfs)}"
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
        found = counts_in(config, "vgpus", _MOST)
        mode = config.get("mode")
        modes = [one.value for one in Mode if one.has_vfs]
        if mode is not None and not is_unknown(mode) and mode not in modes:
            found.append(ProblemError("Unknown mode", f"The modes are {few(modes)}.", ["mode"]))
        return found

    async def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        spec, stored = _spec(config), await _stored(client, config["name"])
        if stored is not None and not _changes(stored, spec):
            return
        selected = await _selected(client, _selection(config))
        for problem in _unknown_names(config, selected):
            yield problem
        for words in [*await _others(client, config["name"], selected), *_claimed(selected)]:
            yield refused(words, [_by(config)])
        if stored is None:
            await _make(client, config["name"], {**spec, "dryRun": False}, dry_run=True)
        else:
            await specs.write(client, _LAYOUTS, config["name"], spec, dry_run=True)
        if selected and not config.get("when_possible"):
            async with trial.layout(client, spec) as made:
                answer = _of(selected, made.metadata.generation, trial.refusal_words)
                _, said = await _waited(
                    client, made.metadata.name, selected, answer, _TRIAL_SECONDS
                )
            if said.kind == "refused":
                yield refused(said.message, ["vgpus"])

    async def look(self, client: Client, state: State) -> State | None:
        stored = await _stored(client, state["name"])
        if stored is None:
            return None
        spec = stored.spec
        selected = await _selected(client, selection(stored))
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
        if current is not None:
            stored = await specs.write(client, _LAYOUTS, name, spec)
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
        await self._applied(client, stored, self.patience(planned))

    async def remove(self, client: Client, current: State) -> None:
        name, seconds = current["name"], self.patience(current)
        stored = await _stored(client, name)
        if stored is None:
            return
        selected = await _selected(client, selection(stored))
        owned = [
            gpu for gpu in selected if any(one.metadata.name == name for one, _ in gpu.layouts)
        ]
        nothing = dict(_NOTHING)
        if stored.spec.vgpus and owned:
            await holders.released(
                client,
                [vgpu.metadata.name for gpu in owned for vgpu in gpu.vgpus],
                lambda: specs.write(client, _LAYOUTS, name, nothing, dry_run=True),
                seconds,
            )
            before = {
                key: to_builtins(stored.spec).get(key, value) for key, value in _NOTHING.items()
            }
            emptied = await specs.write(client, _LAYOUTS, name, nothing)
            try:
                await self._applied(client, emptied, seconds)
            except UnfinishedError:
                await specs.write(client, _LAYOUTS, name, before)
                raise
        try:
            await client.delete(_LAYOUTS, name)
        except NotFoundError:
            return

    async def _applied(self, client: Client, stored: VGPULayout, seconds: int) -> None:
        """Wait until every GPU that is selected now is as desired. Raises UnfinishedError."""
        name, generation = stored.metadata.name, stored.metadata.generation
        selected = await _selected(client, selection(stored))
        if not selected:
            return
        further = f"To watch: kubectl get vgpulayout {name} --watch"
        try:
            _, said = await _waited(
                client, name, selected, _of(selected, generation, lambda one: one.words), seconds
            )
        except TooLateError as error:
            raise UnfinishedError(error, further) from None
        if said.kind == "refused" and not stored.spec.when_possible:
            raise UnfinishedError(f"VGPULayout {name} is refused: {said.message}", further)


_NOTHING: Mapping[str, Any] = {"vgpus": [], "mode": "", "whenPossible": False}
"""What a layout says before it is deleted."""


async def _stored(client: Client, name: str) -> VGPULayout | None:
    try:
        return await client.get(_LAYOUTS, name)
    except NotFoundError:
        return None


async def _make(client: Client, name: str, spec: State, *, dry_run: bool) -> None:
    body = {
        "apiVersion": _LAYOUTS.api_version,
        "kind": _LAYOUTS.kind,
        "metadata": {"name": name},
        "spec": spec,
    }
    try:
        await client.create(_LAYOUTS, body, dry_run=dry_run)
    except NotFoundError:
        raise NotInstalledError(_LAYOUTS.kind) from None


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


def _changes(stored: VGPULayout, spec: State) -> bool:
    was = stored.spec
    kept = {
        "nodes": was.node_selector.names,
        "node_labels": was.node_selector.match_labels,
        "gpus": was.gpu_selector.names,
        "device_ids": was.gpu_selector.device_ids,
        "mode": was.mode,
        "vgpus": {one.profile: one.count for one in was.vgpus},
        "take_over": was.take_over,
        "when_possible": was.when_possible,
    }
    return _spec(kept) != spec


def _selection(state: State) -> Selection:
    return Selection(
        labels=dict(state.get("node_labels") or {}),
        nodes=frozenset(state.get("nodes") or ()),
        names=frozenset(state.get("gpus") or ()),
        device_ids=frozenset(state.get("device_ids") or ()),
    )


async def _selected(client: Client, wanted: Selection) -> list[Gpu]:
    """The GPUs that agents will take for selected, as far as objects show it."""

    def is_meant(gpu: Gpu) -> bool:
        device = gpu.pci.status.device_id if gpu.pci is not None else ""
        return selects_node(wanted, gpu.node, gpu.labels) and selects_gpu(wanted, gpu.name, device)

    return [gpu for gpu in (await fleet.look(client)).gpus if is_meant(gpu)]


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


async def _others(client: Client, name: str, selected: Sequence[Gpu]) -> list[str]:
    """GPUs that another layout configures."""
    layouts = [
        layout
        async for page in client.list(_LAYOUTS)
        for layout in map(_LAYOUTS.decode, page.items)
        if claims(layout) and layout.metadata.name != name
    ]
    found = []
    for gpu in selected:
        entries = {one.metadata.name: entry for one, entry in gpu.layouts}
        device = gpu.pci.status.device_id if gpu.pci is not None else ""
        rivals = [
            claimant(one, entries.get(one.metadata.name))
            for one in layouts
            if selects_node(selection(one), gpu.node, gpu.labels)
            and selects_gpu(selection(one), gpu.name, device)
        ]
        own = entries.get(name)
        is_ours = own is not None and own.accepted_generation > 0
        if rivals and not is_ours:
            found.append(GpuOwnedByLayout(gpu.name, owner(rivals)).words)
    return found


def _claimed(selected: Sequence[Gpu]) -> list[str]:
    return [words for gpu in selected for words in claimed(gpu)]


def _of(
    selected: Sequence[Gpu], generation: int, words: Callable[[Answer], str]
) -> Callable[[VGPULayout], Answer]:
    """How far the agents of all selected GPUs are with a generation of a layout."""

    def answer(layout: VGPULayout) -> Answer:
        said = [(gpu, of_layout(entry_of(layout, gpu.name, generation))) for gpu in selected]
        if refusals := [(gpu, one) for gpu, one in said if one.kind == "refused"]:
            text = " ".join(f"{gpu.title}: {words(one)}" for gpu, one in refusals)
            return Answer("refused", refusals[0][1].reason, text)
        open_ones = [(gpu, one) for gpu, one in said if one.kind != "done"]
        if not open_ones:
            return Answer("done")
        gpu, one = open_ones[0]
        if all(other.kind == "none" for _, other in open_ones):
            return Answer("none")
        return Answer("working", one.reason, f"{gpu.title}: {one.message or 'not answered yet'}")

    return answer


async def _waited(
    client: Client,
    name: str,
    selected: Sequence[Gpu],
    answer: Callable[[VGPULayout], Answer],
    seconds: int,
) -> tuple[VGPULayout, Answer]:
    nodes = ", ".join(dict.fromkeys(gpu.node for gpu in selected))
    return await awaited(client, _LAYOUTS, name, answer, node=nodes, seconds=seconds)


def _kept(state: State, attribute: str, found: Any) -> Any:
    """What is empty stays as it was written: not at all, or as an empty list."""
    return found or (None if state.get(attribute) is None else found)
