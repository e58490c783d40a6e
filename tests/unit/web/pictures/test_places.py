"""Places for GPU instances to choose from."""

from __future__ import annotations

from laneway.core.mig.positions import Position
from laneway.web.pictures.places import Choice, places
from support.drawn import EVIL, SAY, check_harmless, of_class, read, words

MIB = 40 * 1024


def test_each_place_is_a_link_with_a_name() -> None:
    choices = [
        Choice(place=Position("1g.5gb", 5, 1), href="?at=5"),
        Choice(place=Position("3g.20gb", 4, 4), href=EVIL),
    ]
    root = read(places(choices, mib=MIB, ids="p", say=SAY))
    check_harmless(root, "p")
    small, large = of_class(root, "place")
    assert (small.tag, small.get("href")) == ("a", "?at=5")
    assert words(small[1]) == "1g.5gb at 25 GiB"
    assert {"place-at-5", "place-of-1"} <= set(small.get("class", "").split())
    assert words(large[1]) == "3g.20gb at 20 GiB"
    assert "3g.20gb 20 GiB, compute slices: 3" in words(root)


def test_where_nothing_fits_it_says_so() -> None:
    assert "No other GPU instance fits." in words(read(places([], mib=MIB, ids="p", say=SAY)))
