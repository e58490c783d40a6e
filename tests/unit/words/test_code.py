"""No comment, docstring or name in the code has a word of the private language that it once had.

Readers of this field do not know these words, and each has one that they know. Plain English that
is only odd in a text for users (`asks for`, `is told`) may stay in a comment.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("src", "packages", "tests", "tools", "bench", "rig")
BANNED = {
    r"whoever|whomever|somebody|somebodys|nobody|nobodys": "the user, VM, client or object",
    r"wish|wishes|wished": "desired state, spec, request",
    r"promise|promises|promised": "reservation",
    r"hands? out|handed out|handouts?": "advertise, allocate",
    r"looks? after": "manage",
    r"mates?": "group member",
    r"anew|afresh": "again",
    r"untold": "unreported, unread",
    r"beside": "alongside, next to, in addition to",
    r"deeds?|shall|lest|whence": "plain English of today",
}
"""What is not written, and what instead."""
PATTERN = re.compile(rf"\b({'|'.join(BANNED)})\b")
UNIX_USER = "read-only, nobody, no capabilities"


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments, docstrings of all kinds, and names of functions and classes, with their lines."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def banned(text: str) -> str:
    """The first such word, also as a part of `a_name`; empty if there is none."""
    found = PATTERN.search(" ".join(text.lower().replace("_", " ").split()))
    return found.group() if found else ""


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_code_has_no_words_of_its_own(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word!r} in {text!r}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if banned(source := path.read_text())
        for line, text in comments(source)
        if (word := banned(text)) and UNIX_USER not in text
    ]
    assert not found, "\n".join(found)


def test_comments_docstrings_and_names_are_read_and_messages_are_not() -> None:
    source = '''
def test_for_nobody():
    """Whoever asks."""
    text = "nobody"  # a wish
'''
    found = [word for _, text in comments(source) if (word := banned(text))]
    assert sorted(found) == ["nobody", "whoever", "wish"]
