"""Write style sheets small, and without what a page of ours can never show.

The sheets of PatternFly are made by a compiler, so their form is plain: rules, groups of rules and
declarations, no comments and no nesting of rules. What is left out goes by selector and by value,
never by position, so that the next version loses the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_PARTS = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};])""")
_STRING = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""")
_GROUP = re.compile(r"@(media|supports|container|layer)\b")
_LEFT_OUT = re.compile(
    r"\.fa[bslr]?\b|\.pf-v6-pficon|\.pf-v6-svg"  # fonts of icons: ours are drawn in the page
    r"|\.pf-v6-u-[\w-]+-on-(sm|md|lg|xl|2xl)\b"  # utilities for one width of the window
    r"|\.pf-v6-theme-(glass|felt|redhat)"  # themes that no page of ours chooses
)


@dataclass(frozen=True)
class Block:
    """A rule or a group of rules: what stands before the brace, and what within."""

    head: str
    inside: tuple[Block | str, ...]


def small(sheets: list[str]) -> str:
    """These sheets as one, with one top-level block a line."""
    blocks = [block for sheet in sheets for block in _kept(_parsed(sheet))]
    return "".join(_written(block) + "\n" for block in blocks)


def _parsed(text: str) -> tuple[Block | str, ...]:
    """Declarations as text, blocks as blocks."""
    stack: list[list[Block | str]] = [[]]
    heads: list[str] = []
    waiting = ""
    for part in _PARTS.split(_COMMENT.sub("", text)):
        if part not in {"{", "}", ";"}:
            waiting += part
            continue
        if part == "{":
            heads.append(_plain(waiting))
            stack.append([])
        elif waiting.strip():
            stack[-1].append(_plain(waiting))
        if part == "}":
            inside = tuple(stack.pop())
            stack[-1].append(Block(heads.pop(), inside))
        waiting = ""
    if heads or waiting.strip():
        raise ValueError("the style sheet ends within a block")
    return tuple(stack[0])


def _plain(text: str) -> str:
    """White space that means nothing, gone; that within strings stays."""
    parts = _STRING.split(text.strip())
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r", ", ",", re.sub(r"\s+", " ", parts[at]))
    whole = "".join(parts)
    name, colon, value = whole.partition(":")
    declared = re.fullmatch(r"-{0,2}[A-Za-z][\w-]*", name)  # and no selector
    return f"{name}:{value.lstrip() or ' '}" if colon and declared else whole


def _kept(found: tuple[Block | str, ...]) -> Iterator[Block | str]:
    for one in found:
        if isinstance(one, str):
            if "url(" not in one or "url(data:" in one:
                yield one
        elif _GROUP.match(one.head):
            inside = tuple(_kept(one.inside))
            if inside:
                yield Block(one.head, inside)
        elif one.head.startswith(("@keyframes", "@property")):
            yield one
        elif one.head != "@font-face":
            yield from _kept_rule(one)


def _kept_rule(rule: Block) -> Iterator[Block]:
    selectors = [one for one in _selectors(rule.head) if not _LEFT_OUT.search(one)]
    inside = tuple(_kept(rule.inside))
    if selectors and inside:
        yield Block(",".join(selectors), inside)


def _selectors(head: str) -> Iterator[str]:
    """The parts between commas that no bracket encloses."""
    depth, part = 0, ""
    for sign in head:
        depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth == 0:
            yield part
            part = ""
        else:
            part += sign
    yield part


def _written(one: Block | str) -> str:
    if isinstance(one, str):
        return one
    lines = [_written(part) + ("" if isinstance(part, Block) else ";") for part in one.inside]
    return f"{one.head}{{{''.join(lines).removesuffix(';')}}}"
