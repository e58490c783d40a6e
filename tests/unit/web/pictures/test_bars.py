"""Capacity as bars."""

from __future__ import annotations

from laneway.core.ledger.ledger import Counts
from laneway.web.pictures.bars import Bar, capacity_bars
from laneway.web.pictures.drawing import Named
from support.drawn import EVIL, SAY, check_harmless, of_class, read, words

COUNTS = Counts(total=16, held=6, reserved=3, wanted=2, unhealthy=1, free=4)
BAR = Bar(name=Named("nvidia.com/NVIDIA_A2-4Q", "/types/A2-4Q"), counts=COUNTS, creatable=4)


def test_a_bar_has_a_piece_for_each_state_with_its_letter_and_number() -> None:
    root = read(capacity_bars([BAR], ids="c", say=SAY))
    check_harmless(root, "c")
    [svg] = of_class(root, "bar-drawn")
    pieces = [
        (group.get("class"), words(group), group[0].get("width")) for group in svg.findall("g")
    ]
    assert pieces == [
        ("bar-held", "H 6", "30%"),
        ("bar-reserved", "R 3", "15%"),
        ("bar-wanted", "W 2", "10%"),
        ("bar-unhealthy", "U 1", "5%"),
        ("bar-free", "F 4", "20%"),
        ("bar-creatable", "C 4", "20%"),
    ]


def test_the_numbers_are_said_in_words_too() -> None:
    root = read(capacity_bars([BAR], ids="c", say=SAY))
    [svg] = of_class(root, "bar-drawn")
    assert svg[0].text == "nvidia.com/NVIDIA_A2-4Q: 16 in all."
    assert svg[1].text == ("held: 6. reserved: 3. wanted: 2. unhealthy: 1. free: 4. creatable: 4.")
    [numbers] = of_class(root, "bar-numbers")
    assert words(numbers) == "H held 6 R reserved 3 W wanted 2 U unhealthy 1 F free 4 C creatable 4"


def test_few_of_very_many_can_be_seen() -> None:
    counts = Counts(total=128_000, held=127_999, unhealthy=1)
    root = read(capacity_bars([Bar(name=Named("x"), counts=counts)], ids="c", say=SAY))
    [few] = of_class(root, "bar-unhealthy")
    assert float(few[0].get("width", "")[:-1]) > 1
    assert "127,999" in words(root)


def test_a_type_without_devices_says_so() -> None:
    root = read(capacity_bars([Bar(name=Named("x"), counts=Counts())], ids="c", say=SAY))
    assert "No devices." in words(root)
    assert not of_class(root, "bar-numbers")  # a list without items is none


def test_several_bars_and_any_names_fit_one_page() -> None:
    evil = Bar(name=Named(EVIL, EVIL), counts=COUNTS)
    check_harmless(read(capacity_bars([evil, evil], ids="c", say=SAY)), "c")
