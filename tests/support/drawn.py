"""Markup that the web interface draws, read again: its elements, ids, links and words."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from markupsafe import Markup

from laneway.web.rendering import Texts

SAY = Texts()
EVIL = "<script>alert(1)</script>\n\"'&{x} \u202egnp" + 500 * "x"
"""What a name of an object may hold."""


def read(markup: Markup) -> ET.Element:
    """The markup as elements; that it is well-formed is checked on the way."""
    return ET.fromstring(f"<all>{markup}</all>")


def words(element: ET.Element) -> str:
    """All text in it, in order."""
    return " ".join(" ".join(element.itertext()).split())


def of_class(root: ET.Element, name: str) -> list[ET.Element]:
    """The elements that have a class."""
    return [one for one in root.iter() if name in one.get("class", "").split()]


def check_harmless(root: ET.Element, ids: str) -> None:
    """No script and no style; every id unique, of the caller, and found where it is referred to."""
    known = [one.get("id", "") for one in root.iter() if one.get("id")]
    assert len(known) == len(set(known))
    assert all(one.startswith(ids) for one in known)
    for one in root.iter():
        assert one.tag != "script"
        assert not [name for name in one.attrib if name.startswith("on") or name == "style"]
        assert set(one.get("aria-labelledby", "").split()) <= set(known)
        if one.get("fill", "").startswith("url(#"):
            assert one.get("fill", "")[5:-1] in known
        assert not [name for name, text in one.items() if "\u202e" in text and name != "href"]
    assert "\u202e" not in words(root)
