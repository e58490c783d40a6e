"""Stages of specs: written only when the one before is met, until hardware is as requested.

The lower controllers are played by the decisions that they really take, on the small kernel of
`support.effects`, which refuses what a driver would refuse, hang at or destroy silently.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.gpu.desired import DesiredMode
from laneway.core.gpu.desired import decide as decide_mode
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, GpuModes
from laneway.core.inventory import Framework
from laneway.core.layout.desired import DesiredLayout, desired_of, plan_desired
from laneway.core.layout.objects import Answer, Found, GpuObject, MigObject, Objects, VgpuObject
from laneway.core.layout.stages import Stage, is_asked, is_met, next_stage
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import vf_count
from laneway.core.vgpu.desired import creation, removal
from support.effects import Kernel
from support.examples import many
from support.looks import A2_NAMES, A100, GPU, VFS, kinds, pf, situation

Q1, Q2, Q4, Q8 = (f"NVIDIA A2-{size}Q" for size in (1, 2, 4, 8))
NAMES = tuple(f"vf-{index}" for index in range(16))


def found_in(look: Situation) -> Found:
    gpu = next(one for one in look.inventory.functions if one.address == GPU)
    return Found(gpu, look.inventory.vgpus, look.gpus.get(GPU))


def desired(mode: str, *vgpus: tuple[str, int]) -> DesiredLayout:
    made = desired_of(GPU, mode, vgpus)
    assert isinstance(made, DesiredLayout), made
    return made


def objects(asks: dict[int, str] | None = None, *, enabled: bool = True, mode: str = "") -> Objects:
    """The objects of a GPU with its 16 functions."""
    every = ((asks or {}).get(index) for index in range(16))
    vgpus = tuple(
        VgpuObject(NAMES[index], VFS[index], profile) for index, profile in enumerate(every)
    )
    return Objects(GpuObject(enabled, mode), None, vgpus)


def staged(asked: DesiredLayout, look: Situation, lower: Objects) -> Stage:
    decision = plan_desired(asked, look)
    assert not isinstance(decision, tuple), decision
    plan = decision if isinstance(decision, Plan) else None
    return next_stage(asked, plan, found_in(look), lower)


# ---------------------------------------------------------------------------------- single stages


def test_new_vgpus_are_desired_at_once_on_the_first_functions_that_are_free() -> None:
    stage = staged(desired("", (Q4, 2)), situation(), objects())
    assert stage == Stage(waiting="vGPUs", vgpus=((NAMES[0], Q4), (NAMES[1], Q4)))


def test_what_goes_is_desired_away_before_anything_else() -> None:
    look = situation(carried={0: Q4, 3: Q4})
    asked = desired("", (Q8, 1))

    first = staged(asked, look, objects({0: Q4, 3: Q4}))
    waiting = staged(asked, look, objects())

    assert first == Stage(waiting="vgpus to go", vgpus=((NAMES[0], None), (NAMES[3], None)))
    assert waiting == Stage(waiting="vgpus to go")


def test_what_is_desired_and_there_is_not_touched() -> None:
    look = situation(carried={0: Q4, 3: Q4})
    stage = staged(desired("", (Q4, 3)), look, objects({0: Q4, 3: Q4}))
    assert stage == Stage(waiting="vGPUs", vgpus=((NAMES[1], Q4),))


def test_a_vgpu_that_was_not_requested_is_taken_over_when_it_is_desired() -> None:
    look = situation(carried={0: Q4, 3: Q4})
    stage = staged(desired("", (Q4, 2)), look, objects({0: Q4}))
    assert stage.vgpus == ((NAMES[3], Q4),)


def test_desired_states_that_wait_already_are_kept_and_those_beyond_go() -> None:
    look = situation(carried={0: Q4})
    stage = staged(desired("", (Q4, 3)), look, objects({0: Q4, 7: Q4, 9: Q8}))
    assert stage.vgpus == ((NAMES[9], None),)
    stage = staged(desired("", (Q4, 3)), look, objects({0: Q4, 7: Q4}))
    assert stage.vgpus == ((NAMES[1], Q4),)


def test_functions_come_before_vgpus_and_their_desired_states_survive_a_reboot() -> None:
    off = situation(pf(vfs=0))
    asked = desired("", (Q4, 1))
    assert staged(asked, off, objects(enabled=False)).gpu == (True, "")
    after_a_reboot = objects({5: Q4})
    assert staged(asked, off, after_a_reboot) == Stage(waiting="the GPU")
    assert is_asked(asked, found_in(off), after_a_reboot)
    assert not is_met(asked, found_in(off))


def test_the_mode_changes_only_once_no_vgpu_is_desired() -> None:
    asked = desired("MixedSize", (Q4, 1), (Q8, 1))
    carrying = situation(carried={0: Q4})

    first = staged(asked, carrying, objects({0: Q4}))
    second = staged(asked, situation(), objects({4: Q4}))
    third = staged(asked, situation(), objects())

    assert first.vgpus == ((NAMES[0], None),)
    assert second.vgpus == ((NAMES[4], None),)
    assert third == Stage(waiting="the GPU", gpu=(True, "MixedSize"))


def test_mixed_sizes_that_a_boot_has_cleared_are_the_gpus_own_affair() -> None:
    asked = desired("MixedSize", (Q4, 1), (Q8, 1))
    lower = objects({0: Q4, 1: Q8}, mode="MixedSize")
    assert staged(asked, situation(), lower) == Stage(waiting="the GPU")
    refused = replace(lower, gpu=replace(lower.gpu, refused=Answer("VgpusEnabled", "", "")))
    assert staged(asked, situation(), refused).vgpus == ((NAMES[0], None), (NAMES[1], None))


@pytest.mark.parametrize(
    ("mode", "stored", "modes", "expected"),
    [
        ("", "", GpuModes(mixed_size=False), None),
        ("", "SameSize", GpuModes(mixed_size=False), None),
        ("", "MixedSize", GpuModes(mixed_size=False), (True, "SameSize")),
        ("", "", GpuModes(mixed_size=True), (True, "SameSize")),
        ("SameSize", "", GpuModes(mixed_size=False), (True, "SameSize")),
    ],
)
def test_an_implied_mode_is_written_only_where_the_gpu_would_have_another(
    mode: str, stored: str, modes: GpuModes, expected: tuple[bool, str] | None
) -> None:
    stage = staged(desired(mode, (Q4, 1)), situation(modes=modes), objects(mode=stored))
    assert stage.gpu == expected


def test_passthrough_is_functions_off_after_all_vgpus() -> None:
    asked = desired("Passthrough")
    look = situation(carried={0: Q4})
    assert staged(asked, look, objects({0: Q4})).vgpus == ((NAMES[0], None),)
    assert staged(asked, situation(), objects()).gpu == (False, "Passthrough")
    off = situation(pf(vfs=0))
    lower = Objects(GpuObject(enabled=False, mode="Passthrough"))
    assert is_asked(asked, found_in(off), lower)
    assert is_met(asked, found_in(off))


@pytest.mark.parametrize(
    ("asks", "expected"),
    [
        ({0: Q4, 3: Q4}, True),
        ({0: Q4, 3: Q4, 5: Q4}, False),
        ({0: Q4}, False),
        ({0: Q4, 4: Q4}, False),
        ({0: Q4, 3: Q8}, False),
        ({0: Q4, 3: ""}, False),
    ],
)
def test_a_layout_is_requested_where_hardware_has_nothing_else(
    asks: dict[int, str], expected: bool
) -> None:
    found = found_in(situation(carried={0: Q4, 3: Q4}))
    assert is_asked(desired("", (Q4, 2)), found, objects(asks)) is expected
    assert not is_asked(desired("", (Q4, 2)), found, objects(asks, enabled=False))
    assert not is_asked(desired("", (Q4, 2)), found, objects(asks, mode="MixedSize"))


@pytest.mark.parametrize(
    ("mode", "modes", "expected"),
    [
        ("", GpuModes(mixed_size=False), True),
        ("", GpuModes(mixed_size=True), False),
        ("SameSize", GpuModes(mixed_size=True), False),
        ("MixedSize", GpuModes(mixed_size=True), True),
        ("MixedSize", GpuModes(mixed_size=False), False),
        ("SameSize", GpuModes(mig=True), False),
        ("SameSize", None, True),
    ],
)
def test_the_mode_is_a_part_of_what_is_met(
    mode: str, modes: GpuModes | None, expected: bool
) -> None:
    found = replace(found_in(situation(carried={0: Q4})), modes=modes)
    assert is_met(desired(mode, (Q4, 1)), found) is expected
    assert not is_met(desired(mode, (Q4, 2)), found)
    off = replace(found_in(situation(pf(vfs=0))), modes=modes)
    assert is_met(desired("MIG"), off) is bool(modes and modes.mig)
    assert is_met(desired("Passthrough"), off) is not bool(modes and modes.mig)


# ------------------------------------------------------------------------------------------- MIG

ONE_G = GpuInstanceProfile("1g.5gb", 19, 7, (0, 1, 2, 3, 4, 5, 6), 1)
TWO_G = GpuInstanceProfile("2g.10gb", 14, 3, (0, 2, 4), 2)
C5, C10 = "GRID A100-1-5C", "GRID A100-2-10C"


def mig(
    *instances: GpuInstance, carried: dict[int, str] | None = None, **more: object
) -> Situation:
    modes = GpuModes(mig=True, profiles=(ONE_G, TWO_G), instances=instances)
    return situation(pf(A100), carried, names=(C5, C10), modes=modes, **more)


def one_g(number: int, start: int) -> GpuInstance:
    return GpuInstance(number, "1g.5gb", 19, start, 1, 1)


def test_gpu_instances_are_desired_after_the_mode_and_before_vgpus() -> None:
    asked = desired("", (C5, 2))
    lower = replace(objects(mode="MIGBacked"), mig=MigObject(enabled=False))

    stage = staged(asked, mig(), lower)
    waiting = staged(asked, mig(), replace(lower, mig=MigObject(True, {"1g.5gb": 2})))
    made = mig(one_g(1, 0), one_g(2, 1))
    vgpus = staged(asked, made, replace(lower, mig=MigObject(True, {"1g.5gb": 2})))

    assert stage == Stage(waiting="GPU instances", mig=(True, {"1g.5gb": 2}))
    assert waiting == Stage(waiting="GPU instances")
    assert vgpus.vgpus == ((NAMES[0], C5), (NAMES[1], C5))


def test_gpu_instances_that_are_requested_and_enough_stay() -> None:
    asked = desired("", (C5, 1))
    lower = replace(objects(mode="MIGBacked"), mig=MigObject(True, {"1g.5gb": 2}))
    assert staged(asked, mig(one_g(1, 0), one_g(2, 1)), lower).mig is None
    fewer = replace(lower, mig=MigObject(True, {}))
    assert staged(asked, mig(one_g(1, 0), one_g(2, 1)), fewer).mig == (True, {"1g.5gb": 2})


def test_gpu_instances_are_desired_away_before_the_card_leaves_mig_mode() -> None:
    asked = desired("", ("GRID A100-4C", 1))
    lower = replace(objects(mode="MIGBacked"), mig=MigObject(True, {"1g.5gb": 1}))
    look = mig(one_g(1, 0))
    assert staged(asked, look, lower) == Stage(waiting="the GPU", mig=(False, {}))
    off = replace(lower, mig=MigObject(enabled=False))
    assert staged(asked, look, off) == Stage(waiting="the GPU", gpu=(True, "SameSize"))


# ------------------------------------------------------------------------------------------ laws


@dataclass
class Node:
    """A GPU with its objects and the controllers that carry these out."""

    look: Situation
    kernel: Kernel
    gpu: GpuObject
    asks: dict[PciAddress, str | None]
    moved: set[PciAddress] = field(default_factory=set)
    """Functions whose vGPU was made or removed."""

    @property
    def lower(self) -> Objects:
        vgpus = (VgpuObject(str(at), at, asked) for at, asked in sorted(self.asks.items()))
        return Objects(self.gpu, None, tuple(vgpus))

    def write(self, stage: Stage) -> None:
        for name, profile in stage.vgpus:
            assert self.asks[PciAddress.parse(name)] != profile
            self.asks[PciAddress.parse(name)] = profile
        if stage.gpu:
            assert stage.gpu != (self.gpu.enabled, self.gpu.mode)
            self.gpu = GpuObject(*stage.gpu)

    def run(self, draw: st.DrawFn) -> None:
        """The lower controllers work, in any order, and not always all of them."""
        for address in draw(st.permutations(sorted(self.asks))):
            if draw(st.integers(0, 3)):
                self._vgpu(address)
        self._gpu()
        for vgpu in self.look.inventory.vgpus:
            self.asks.setdefault(vgpu.address, None)

    def _vgpu(self, address: PciAddress) -> None:
        vgpus = self.look.inventory.vgpus
        function = next((one for one in vgpus if one.address == address), None)
        asked = self.asks[address]
        if function is None or self._preparing():
            return
        has = function.configured.type_name if function.configured else None
        if has == asked:
            return
        steps = [removal(function, function.configured)] if function.configured else []
        if asked is not None:
            kind = next((one for one in function.supported if one.name == asked), None)
            if kind is None:
                return
            steps.append(creation("node", function, kind))
        self.look = self.kernel.run(steps, self.look)
        self.moved.add(address)

    def _preparing(self) -> bool:
        return isinstance(decide_mode(self._mode(), self.look), Plan)

    def _mode(self) -> DesiredMode:
        return DesiredMode(GPU, self.gpu.enabled, self.gpu.mode, explicit=True)

    def _gpu(self) -> None:
        """As its controller does it: never under a vGPU, nor under a spec for another mode."""
        decision = decide_mode(self._mode(), self.look)
        if isinstance(decision, Plan):
            self.look = self.kernel.run(decision.steps, self.look)


PROFILES = (Q2, Q4, "NVIDIA A2-4C", Q8)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Node, frozenset[int]]:
    """Any state that controllers, people and crashes can leave a node in."""
    framework: Framework = draw(st.sampled_from(("mdev", "vendor-vfio")))
    on = draw(st.booleans())
    mixed = on and draw(st.booleans())
    size = draw(st.sampled_from((PROFILES[:1], PROFILES[1:3], PROFILES[3:])))
    kinds_there = st.sampled_from(PROFILES if mixed else size)
    most = 3 if mixed else 4
    carried = draw(st.dictionaries(st.integers(0, 7), kinds_there, max_size=most)) if on else {}
    held = frozenset(index for index in carried if draw(st.integers(0, 4)) == 0)
    full = situation(pf(), framework=framework)
    look = situation(
        pf(vfs=16 if on else 0),
        carried,
        framework=framework,
        modes=GpuModes(mixed_size=mixed),
        held=tuple(held),
    )
    kernel = Kernel(
        {GPU: full.inventory.functions[1:]},
        {GPU: "nvidia"},
        framework,
        kinds(*A2_NAMES, "NVIDIA A2-4C", framework=framework),
    )
    asks: dict[PciAddress, str | None] = {
        VFS[index]: carried.get(index) for index in range(16 if on else 0)
    }
    for index in draw(st.sets(st.integers(0, 15), max_size=4)):
        if index not in held:
            asks[VFS[index]] = draw(st.sampled_from((None, *PROFILES)))
    gpu = GpuObject(draw(st.booleans()), draw(st.sampled_from(("", "SameSize", "MixedSize"))))
    return Node(look, kernel, gpu, asks), held


@st.composite
def layouts(draw: st.DrawFn) -> DesiredLayout:
    mode = draw(st.sampled_from(("", "", "SameSize", "MixedSize", "Passthrough")))
    if mode == "Passthrough":
        return desired(mode)
    some = st.tuples(st.sampled_from(PROFILES), st.integers(1, 3))
    return desired(mode, *draw(st.lists(some, max_size=2)))


@settings(max_examples=many(300), deadline=None)
@given(st.data())
def test_every_layout_ends_as_asked_or_refused_and_moves_no_vgpu_that_can_stay(
    data: st.DataObject,
) -> None:
    node, held = data.draw(nodes())
    asked = data.draw(layouts())
    first = plan_desired(asked, node.look)
    goes = {step.function for step in first.steps} if isinstance(first, Plan) else set()
    stays = found_in(node.look).carried.keys() - goes

    for _ in range(60):
        found = found_in(node.look)
        if is_asked(asked, found, node.lower) and is_met(asked, found):
            event("met")
            break
        decision = plan_desired(asked, node.look)
        if isinstance(decision, tuple):
            event(f"refused: {decision[0].reason}")
            break
        before = node.lower
        stage = next_stage(asked, decision if isinstance(decision, Plan) else None, found, before)
        node.write(stage)
        node.run(data.draw)
    else:
        raise AssertionError(f"no end: {node}")

    assert not {VFS[index] for index in held} & node.moved
    assert not stays & node.moved
    if is_met(asked, found_in(node.look)):
        assert Counter(found_in(node.look).carried.values()) == asked.wanted
        assert bool(vf_count(found_in(node.look).gpu)) == asked.shared
        stage = staged(asked, node.look, node.lower)
        assert not stage.writes
        assert stage.waiting == "nothing"
