"""Templates keep to what the content security policy allows, and every text is in the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import laneway.web
from laneway.web.rendering import Texts

WEB = Path(laneway.web.__file__).parent
TEMPLATES = sorted((WEB / "templates").rglob("*.html"))
SOURCES = [*TEMPLATES, *sorted(WEB.rglob("*.py"))]

FORBIDDEN = re.compile(
    r"""\sstyle\s*=|\son[a-z]+\s*=\s*["']|hx-on|\bjs:|javascript:|<style|<script(?![^>]*\ssrc=)"""
)
_LITERAL = r"""\b(?:t|tn|tm|texts|say|markup|count)\(\s*f?["']([a-z_]+\.[A-Za-z_.]*)"""
_TEXT_ID = re.compile(_LITERAL + r"""([^"']*)["'](\s*~)?""")
_QUOTED = re.compile(r"""["']([a-z_]+\.[A-Za-z_.]+)["'{]""")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_nothing_that_browsers_are_told_to_ignore(template: Path) -> None:
    assert FORBIDDEN.findall(template.read_text()) == []


def test_every_text_that_is_used_is_in_the_catalogue() -> None:
    ids = Texts().ids()
    missing = []
    for source in SOURCES:
        for id_, rest, joined in _TEXT_ID.findall(source.read_text()):
            if joined or rest.startswith("{"):
                found = any(one.startswith(id_) for one in ids)
            else:
                found = id_ in ids or f"{id_}_one" in ids
            if not found:
                missing.append(f"{source.name}: {id_}")
    assert missing == []


def test_every_text_of_the_catalogue_is_used() -> None:
    text = "\n".join(source.read_text() for source in SOURCES)
    used = set(_QUOTED.findall(text)) | {id_ for id_, _, _ in _TEXT_ID.findall(text)}
    joined = {id_ for id_, rest, tilde in _TEXT_ID.findall(text) if tilde or rest.startswith("{")}
    unused = [
        id_
        for id_ in Texts().ids()
        if id_ not in used
        and re.sub(r"_(one|other)$", "", id_) not in used
        and not id_.startswith(tuple(joined))
    ]
    assert sorted(unused) == []
