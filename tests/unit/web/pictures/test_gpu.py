"""The picture of a GPU."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.web.pictures.drawing import (
    Change,
    Function,
    GpuDrawing,
    Named,
    Part,
    State,
    Vgpu,
    compared,
)
from laneway.web.pictures.gpu import gpu_change, gpu_picture, memory
from support.drawn import EVIL, SAY, check_harmless, of_class, read, words

GIB = 1024


def vgpu(address: str, gib: float, holder: str = "", state: State | None = None) -> Vgpu:
    return Vgpu(
        name=Named(address, f"/vgpus/{address}"),
        profile=f"A2-{gib}Q",
        mib=int(gib * GIB),
        holder=Named(holder, f"/vms/{holder}") if holder else None,
        state=state or (State.HELD if holder else State.IDLE),
        why="The driver refused it." if state else "",
    )


def part(start: float, one: Vgpu) -> Part:
    return Part(start=int(start * GIB), mib=one.mib, name=one.profile, vgpus=(one,))


def free(start: float, gib: float) -> Part:
    return Part(start=int(start * GIB), mib=int(gib * GIB))


HELD = part(0, vgpu("08:00.4", 4, "VM default/web"))
IDLE = part(4, vgpu("08:00.5", 4))
BROKEN = part(8, vgpu("08:00.6", 2, state=State.BROKEN))
A2 = GpuDrawing(
    title="node1/08:00.0 A2",
    mib=16 * GIB,
    parts=(HELD, IDLE, BROKEN, free(10, 6)),
    missing=(vgpu("08:00.7", 2, state=State.MISSING),),
    functions=(
        Function(name=Named("08:00.4"), state=State.HELD, profile="A2-4Q", part=1),
        Function(name=Named("08:00.7"), state=State.MISSING, profile="A2-2Q"),
        Function(name=Named("08:01.0", "/vgpus/x")),
    ),
)


def shown(drawing: GpuDrawing) -> ET.Element:
    root = read(gpu_picture(drawing, ids="gpu-x", say=SAY))
    check_harmless(root, "gpu-x")
    [svg] = of_class(root, "pic-memory")
    for box in svg.findall(".//g//rect") + of_class(svg, "pic-slice"):
        assert int(box.get("y", "")) + int(box.get("height", "")) < int(svg.get("height", ""))
    return root


def boxes(root: ET.Element) -> list[tuple[str, str, str]]:
    """Kind, beginning and width of each part of the memory."""
    [svg] = of_class(root, "pic-memory")
    return [
        (group.get("class", ""), box.get("x", ""), box.get("width", ""))
        for group in svg.findall("g")
        for box in group.findall("rect[@class='pic-box']")
    ]


def test_parts_are_to_scale_and_of_their_kind() -> None:
    assert boxes(shown(A2)) == [
        ("pic-held", "0%", "25%"),
        ("pic-idle", "25%", "25%"),
        ("pic-bad", "50%", "12.5%"),
        ("pic-free", "62.5%", "37.5%"),
    ]


def test_parts_have_the_numbers_of_the_list() -> None:
    groups = shown(A2).findall(".//svg[@class='pic-memory']/g")
    numbers = [[words(one) for one in of_class(group, "pic-number")] for group in groups]
    assert numbers == [["1"], ["2"], ["3"], []]


def test_what_is_broken_has_a_pattern_and_a_sign_and_what_is_free_has_a_pattern() -> None:
    held, idle, broken, rest = shown(A2).findall(".//svg[@class='pic-memory']/g")
    assert "url(#gpu-x-bad)" in {one.get("fill") for one in broken}
    assert "!" in words(broken)
    assert "url(#gpu-x-free)" in {one.get("fill") for one in rest}
    for one in (held, idle):
        assert {rect.get("fill") for rect in one} == {None}


def test_the_image_has_a_name_and_says_its_numbers() -> None:
    [svg] = of_class(shown(A2), "pic-memory")
    assert (svg.get("role"), svg.get("aria-labelledby")) == ("img", "gpu-x-title gpu-x-desc")
    title, desc = svg[0], svg[1]
    assert title.text == "Memory of node1/08:00.0 A2: 10 GiB of 16 GiB allocated."
    for fact in (
        "1 to 2: A2-4Q, 4 GiB each.",
        "3: A2-2Q, 2 GiB.",
        "Free: 6 GiB.",
        "Not in order: 2.",
    ):
        assert fact in str(desc.text)
    assert not list(svg.iter("a"))  # an image has no links


def test_the_list_has_every_part_with_its_function_and_its_holder() -> None:
    root = shown(A2)
    first, second, third = root.findall(".//ol[@class='pic-legend']/li")
    assert words(first) == "A2-4Q , 4 GiB at 0 GiB 08:00.4 held by VM default/web"
    assert [one.get("href") for one in first.iter("a")] == ["/vgpus/08:00.4", "/vms/VM default/web"]
    assert "no holder" in words(second)
    assert "not in order: The driver refused it." in words(third)
    [missing] = of_class(root, "pic-missing")
    assert "A2-2Q , 2 GiB 08:00.7 missing: The driver refused it." in words(missing)


def test_each_virtual_function_is_a_box_that_says_what_it_has() -> None:
    root = shown(A2)
    assert "Virtual functions: 3. With a vGPU: 1. Without: 1. Not in order: 1." in words(root)
    found = [(one.get("title"), words(one).split()[0]) for one in of_class(root, "pic-vf")]
    assert found == [
        ("08:00.4, A2-4Q, held", "1"),
        ("08:00.7, A2-2Q, missing", "!"),
        ("08:01.0, no vGPU", "08:01.0,"),
    ]


def test_positions_that_the_driver_does_not_report_are_not_claimed() -> None:
    root = shown(msgspec.structs.replace(A2, placed=False))
    assert "reports no positions" in words(root)
    assert " at 0 GiB" not in words(root.findall(".//ol")[0])


def test_many_small_parts_are_named_together_and_the_image_stays_small() -> None:
    parts = tuple(part(n, vgpu(f"0000:08:{n:02x}.4", 1, f"VM default/vm-{n}")) for n in range(32))
    drawing = GpuDrawing(title="L40S", mib=48 * GIB, parts=(*parts, free(32, 16)))
    image = memory(drawing, ids="gpu-x", say=SAY)
    assert len(image.encode()) < 20_000
    assert SAY("pictures.bracket", first=1, last=32, count=32, name="A2-1Q") in words(read(image))


def instance(start: int, gib: int, name: str, *vgpus: Vgpu) -> Part:
    return Part(
        start=start * GIB, mib=gib * GIB, name=name, id=9, compute=int(name[0]), vgpus=vgpus
    )


def test_a_gpu_instance_shows_its_vgpus_and_its_compute_slices() -> None:
    inside = (vgpu("08:00.4", 5, "VM a/b"), vgpu("08:00.5", 5, state=State.BROKEN))
    drawing = GpuDrawing(
        title="A100",
        mib=40 * GIB,
        parts=(instance(0, 20, "3g.20gb", *inside), free(20, 20)),
        compute=7,
    )
    root = shown(drawing)
    group = root.find(".//svg[@class='pic-memory']/g")
    assert group is not None
    assert group.get("class") == "pic-idle"
    assert "!" in words(group)
    assert [one.get("class") for one in group.findall("g")] == ["pic-held", "pic-bad"]
    assert "Compute slices: 3 of 7 taken" in words(root)
    assert len(of_class(root, "pic-slice-free")) == 4
    assert "3g.20gb , 20 GiB at 0 GiB, GPU instance 9" in words(root)


@pytest.mark.parametrize("state", [State.HELD, State.BROKEN])
def test_names_of_objects_can_hold_anything(state: State) -> None:
    evil = Vgpu(
        name=Named(EVIL, EVIL),
        profile=EVIL,
        mib=GIB,
        holder=Named(EVIL, EVIL),
        state=state,
        why=EVIL,
    )
    one = Part(start=0, mib=GIB, name=EVIL, vgpus=(evil,))
    other = Part(start=GIB, mib=GIB, name=EVIL, id=1, compute=1, vgpus=(evil,))
    drawing = GpuDrawing(
        title=EVIL,
        mib=2 * GIB,
        parts=(one, other),
        missing=(evil,),
        functions=(Function(name=Named(EVIL, EVIL), state=state, profile=EVIL, part=1),),
    )
    shown(drawing)
    check_harmless(read(gpu_change(drawing, drawing, ids="c", say=SAY)), "c")


@given(st.lists(st.integers(1, 96), min_size=1, max_size=32))
def test_any_parts_fill_the_width(sizes: list[int]) -> None:
    parts, start = [], 0
    for number, size in enumerate(sizes):
        name = "A2-1Q" if number % 3 else ""
        parts.append(Part(start=start, mib=size, name=name))
        start += size
    found = boxes(shown(GpuDrawing(title="", mib=start, parts=tuple(parts))))
    assert len(found) == len(sizes)
    assert sum(float(width[:-1]) for _, _, width in found) == pytest.approx(100, abs=0.1)


def changes(drawing: GpuDrawing) -> list[Change]:
    return [one.change for one in drawing.parts]


def test_what_stays_is_not_marked_and_what_differs_is() -> None:
    new = Part(start=8 * GIB, mib=8 * GIB, name="A2-8Q", vgpus=(Vgpu(profile="A2-8Q"),))
    before = msgspec.structs.replace(A2, parts=(HELD, IDLE, free(8, 8)))
    after = msgspec.structs.replace(A2, parts=(HELD, free(4, 4), new))
    was, becomes = compared(before, after)
    assert changes(was) == [Change.NONE, Change.REMOVED, Change.NONE]
    assert changes(becomes) == [Change.NONE, Change.NONE, Change.NEW]
    root = read(gpu_change(before, after, ids="c", say=SAY))
    check_harmless(root, "c")
    assert "removed" in words(root.findall(".//figure")[0])
    assert "new" in words(root.findall(".//figure")[1])


def test_the_same_vgpu_at_another_place_has_moved() -> None:
    moved = msgspec.structs.replace(IDLE, start=12 * GIB)
    before = msgspec.structs.replace(A2, parts=(IDLE,))
    after = msgspec.structs.replace(A2, parts=(moved,))
    assert [changes(one) for one in compared(before, after)] == [[Change.MOVED], [Change.MOVED]]


def test_a_planned_vgpu_without_a_function_is_new_wherever_it_is() -> None:
    planned = Part(start=12 * GIB, mib=4 * GIB, name="A2-4Q", vgpus=(Vgpu(profile="A2-4Q"),))
    unnamed = msgspec.structs.replace(planned, start=0)
    before = msgspec.structs.replace(A2, parts=(unnamed,))
    after = msgspec.structs.replace(A2, parts=(planned,))
    assert [changes(one) for one in compared(before, after)] == [[Change.REMOVED], [Change.NEW]]
