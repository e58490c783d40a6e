"""No text that a user meets has a word that the style guide bans (CONTRIBUTING.md, Texts)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src/laneway"
PAGES = (
    "README.md",
    "docs/**/*.md",
    "charts/laneway/README.md",
    "charts/laneway/alerts*.yaml",
    "charts/laneway/templates/NOTES.txt",
    "charts/laneway/values.yaml",
)
BANNED = {
    r"shall|lest|whence|hence|thereof": "the present tense, or must",
    r"whoever|whomever|somebody|nobody": "the user, VM, program or object that it is",
    r"wish(es|ed|ing)?": "desired state, spec, request",
    r"hand(s|ed|ing)? out|handouts?": "advertise, allocate; device plugin",
    r"g[ai]ves? (\w+ )?back|giv(en|ing) back": "release",
    r"lets? go": "release",
    r"mates?": "group member",
    r"hurts?": "affected",
    r"anew|afresh|of its own accord|in vain": "again, by itself, without effect",
    r"asks? for|asked for|asking for": "request",
    r"(is|are|be|was|were|been) told": "what tells it: reports, prints",
    r"who has what|goes dark|the ones? that|one that": "the noun",
    r"looks? after|sees? to it": "manage, correct",
}
"""What is not written, and what instead."""
PATTERN = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)
FEW_WORDS = 3
"""Shorter strings are keys and names."""


def texts(source: str) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings, with their lines."""
    tree = ast.parse(source)
    silent = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent.update(id(part) for part in node.values)
            yield node.lineno, " ".join(_part(part) for part in node.values)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in silent
        ):
            yield node.lineno, node.value


def _part(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "x"


def banned(text: str) -> str:
    found = PATTERN.search(" ".join(text.split()))
    return found.group() if found else ""


LAYERS = sorted(one.name for one in SOURCES.iterdir() if one.is_dir())


@pytest.mark.parametrize("layer", LAYERS)
def test_messages_have_no_banned_words(layer: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word!r} in {text!r}"
        for path in sorted((SOURCES / layer).rglob("*.py"))
        if PATTERN.search(source := path.read_text())
        for line, text in texts(source)
        if len(text.split()) >= FEW_WORDS and (word := banned(text))
    ]
    assert found == []


@pytest.mark.parametrize("pattern", PAGES)
def test_pages_have_no_banned_words(pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {word!r} in {line.strip()!r}"
        for path in sorted(ROOT.glob(pattern))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (word := banned(line))
    ]
    assert found == []


def test_a_banned_word_is_found_in_messages_alone() -> None:
    source = 'def f(x):\n    """Who shall have it."""\n    return f"{x} shall be", "shall"\n'
    assert [banned(text) for _, text in texts(source)] == ["shall", "shall"]
