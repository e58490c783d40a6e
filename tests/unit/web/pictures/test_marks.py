"""Whether a text fits."""

from __future__ import annotations

import re
from importlib import resources

from laneway.web.pictures.marks import clean, fits_from


def width(text: str, share: float) -> int:
    return int(fits_from(text, share).rpartition("-")[2] or 10_000)


def test_a_longer_text_or_a_narrower_box_needs_a_wider_picture() -> None:
    assert width("A2-4Q", 0.25) < width("A2-4Q", 0.05) < width("RTX-PRO-6000-48Q", 0.05)
    assert width("中中中中中", 0.1) > width("AAAAA", 0.1)


def test_what_fits_nowhere_is_never_shown() -> None:
    assert fits_from("x" * 500, 0.01) == ""
    assert fits_from("x", 0) == ""


def test_the_stylesheet_knows_every_width() -> None:
    css = (resources.files("laneway.web") / "static" / "pictures.css").read_text("utf-8")
    known = set(re.findall(r"min-width: (\d+)rem\) { \.pic-from-\1 ", css))
    used = {str(width("x" * length, 0.1)) for length in range(1, 22)} - {"10000"}
    assert used <= known
    assert len(used) > 5


def test_characters_that_reorder_a_line_are_taken_out() -> None:
    assert clean("a\u202eb\nc") == "a b c"
    assert len(clean("x" * 500)) == 120
