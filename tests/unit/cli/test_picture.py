"""The picture of a GPU's memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laneway.cli.picture import boxes, lines
from laneway.core.vgpu.occupancy import Occupancy, Part
from laneway.views.page import Picture

GIB = 1024
HALF = Occupancy(
    16 * GIB,
    (
        Part(4 * GIB, "NVIDIA A2-4Q", ("0000:08:00.4",)),
        Part(4 * GIB, "NVIDIA A2-4Q", ("0000:08:00.5",)),
        Part(8 * GIB),
    ),
    placed=False,
)


def test_parts_are_to_scale_and_say_what_occupies_them() -> None:
    assert boxes(HALF, width=44, unicode=True) == [
        "┌──────────┬──────────┬────────────────────┐",
        "│ 1 A2-4Q  │ 2 A2-4Q  │░░░░ free 8 GiB ░░░░│",
        "└──────────┴──────────┴────────────────────┘",
    ]


def test_plain_characters_do_where_there_is_no_unicode() -> None:
    drawn = "".join(boxes(HALF, width=44, unicode=False))
    assert drawn.isascii()
    assert drawn.startswith("+----------+----------+--------------------+| 1 A2-4Q  |")


def test_every_vgpu_has_a_line_with_its_holder() -> None:
    _, _, _, first, second, note = lines(Picture(HALF, {"0000:08:00.5": "VM default/web"}))
    assert first == " 1  A2-4Q, 4 GiB: 0000:08:00.4"
    assert second == " 2  A2-4Q, 4 GiB: 0000:08:00.5 VM default/web"
    assert "no positions" in note


@given(st.lists(st.integers(1, 96), min_size=1, max_size=32), st.integers(34, 78))
def test_any_parts_fit_in_the_width(sizes: list[int], width: int) -> None:
    parts = tuple(Part(size * GIB, "NVIDIA A2-4Q" if n % 2 else "") for n, size in enumerate(sizes))
    drawn = boxes(Occupancy(sum(sizes) * GIB, parts, placed=True), width=width, unicode=True)
    [length] = {len(line) for line in drawn}
    assert length <= max(width, 2 * len(sizes) + 1)
    assert drawn[1].count("│") == len(sizes) + 1
