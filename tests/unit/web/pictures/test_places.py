"""Places for GPU instances to choose from, icons, and the steps of a plan."""

from __future__ import annotations

import pytest

from laneway.core.mig.positions import Position
from laneway.web.pictures.icons import Icon, icon
from laneway.web.pictures.places import Choice, places
from laneway.web.pictures.steps import Step, step_list
from support.drawn import EVIL, SAY, check_harmless, of_class, read, words

MIB = 40 * 1024


def test_each_place_is_a_link_or_a_button_with_a_name() -> None:
    choices = [
        Choice(place=Position("1g.5gb", 5, 1), href="?at=5", chosen=True),
        Choice(place=Position("3g.20gb", 4, 4), form="mig", name="place", value="3g.20gb@4"),
    ]
    root = read(places(choices, mib=MIB, ids="p", say=SAY))
    check_harmless(root, "p")
    link, button = of_class(root, "place")
    assert (link.tag, link.get("href"), link.get("aria-current")) == ("a", "?at=5", "true")
    assert words(link[1]) == "1g.5gb at 25 GiB"
    assert {"place-at-5", "place-of-1"} <= set(link.get("class", "").split())
    assert (button.tag, button.get("form"), button.get("value")) == ("button", "mig", "3g.20gb@4")
    assert (words(button[1]), button.get("aria-pressed")) == ("3g.20gb at 20 GiB", "false")
    assert "3g.20gb 20 GiB, compute slices: 3" in words(root)


def test_where_nothing_fits_it_says_so() -> None:
    assert "No other GPU instance fits." in words(read(places([], mib=MIB, ids="p", say=SAY)))


def test_steps_say_how_far_a_plan_is() -> None:
    steps = [
        Step(text="Set the number of virtual functions", state=Icon.OK),
        Step(text="Create A2-4Q", state=Icon.WORKING),
        Step(text=EVIL, state=Icon.ERROR, detail=EVIL),
        Step(text="Create A2-8Q"),
    ]
    root = read(step_list(steps, say=SAY))
    check_harmless(root, "")
    assert "1 of 4 steps done" in words(root)
    found = root.findall(".//li")
    assert [one.get("aria-current") for one in found] == [None, "step", None, None]
    named = [one.find("svg") for one in found]
    assert [svg.get("aria-label") for svg in named if svg is not None] == [
        "Done",
        "In progress",
        "Failed",
        "To do",
    ]


@pytest.mark.parametrize("kind", Icon)
def test_an_icon_has_a_name_where_no_text_says_it(kind: Icon) -> None:
    [alone], [next_to_text] = read(icon(kind, EVIL)), read(icon(kind))
    assert (alone.get("role"), bool(alone.get("aria-label"))) == ("img", True)
    assert next_to_text.get("aria-hidden") == "true"


def test_every_icon_has_a_shape_of_its_own() -> None:
    shapes = {read(icon(kind))[0][0].get("d") for kind in Icon}
    assert len(shapes) == len(Icon)
