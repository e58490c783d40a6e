r"""JSONPath as Kubernetes reads it: what is at a path is what `kubectl get` shows in a column.

The dialect is client-go's, with its peculiarities, because definitions in use rely on them: keys
with `\.` in them, `['key']`, indexes and slices that must lie within their list, filters, unions,
`*` and `..`. A filter compares values of one type; anything else makes the whole path fail, and a
path that fails leaves its cell empty.

Among the values of a map `*` and `..` go in the order in which they are stored; Kubernetes goes in
any. `range` is refused: there it changes what the next object shows.

A path is read once and then walked for every object of a list. What it may visit is bounded, since
unions and `..` multiply what they find.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

from kapilite.printers.golang import unquote
from kapilite.printers.steps import (
    Failed,
    Step,
    Takes,
    Values,
    Walk,
    children,
    comparison,
    constant,
    descend,
    exists,
    fails,
    field,
    having,
    key_comparison,
    slice_of,
    union,
)

_TERMINATORS = frozenset(" \t\r\n.,[]$@{}")
_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?")
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
_TEXT = re.compile(r"""["]([^"\\]*)["]|'([^'\\]*)'""")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?=.?[0-9])[0-9]*+\.?[0-9]*")
_INT64 = range(-(2**63), 2**63)
_DIGITS = 19


class UnreadableError(ValueError):
    """The text is no path."""


class UnsupportedError(ValueError):
    """Kubernetes reads the path, and this does not."""


class Path:
    """A path as it was read."""

    def __init__(self, text: str) -> None:
        """Raises UnreadableError and UnsupportedError."""
        actions, self.keys = _Reader("{" + text + "}").read()
        """The keys of a path that has nothing else; None of any other."""
        self._first, *self._others = actions

    def find(self, obj: Any, walk: Walk | None = None) -> Values:
        """The values at the path, which may be null; none where it does not fit.

        With a walk it visits no more than others that had it have left.
        """
        if self.keys is not None:
            for key in self.keys:
                if not isinstance(obj, dict) or key not in obj:
                    return []
                obj = obj[key]
            return [obj]
        walk = walk or Walk()
        try:
            found = walk.follow(self._first, [obj])
            for steps in self._others:
                walk.follow(steps, [obj])
        except Failed:
            return []
        return found


class _Reader:
    """Reads a template: texts, and actions in braces."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._keys: list[str] | None = []

    def read(self) -> tuple[list[list[Step]], list[str] | None]:
        actions = []
        while (start := self._text.find("{", self._at)) >= 0:
            self._at = start + 1
            actions.append(self._action())
        return actions, self._keys if len(actions) == 1 else None

    def _next(self) -> str:
        """The next character, or nothing at the end."""
        char = self._text[self._at : self._at + 1]
        self._at += len(char)
        return char

    def _action(self) -> list[Step]:
        steps: list[Step] = []
        after_descent = False
        while True:
            if self._takes("}"):
                return steps
            if self._takes("[?("):
                steps.append(self._plain(having(self._filter())))
            elif self._takes(".."):
                if after_descent:
                    _refuse("invalid multiple recursive descent")
                steps.append(self._plain(descend))
                if _is_word(self._text[self._at : self._at + 1]):
                    steps.append(self._field())
                else:
                    after_descent = True
                    continue
            elif self._one(steps):
                continue  # nothing was added
            after_descent = False

    def _one(self, steps: list[Step]) -> bool:
        """Read what one character begins; whether it is nothing."""
        start, char = self._at, self._next()
        if char in ("", "\r", "\n"):
            _refuse("unclosed action")
        if char in " @$":
            return True
        if char == "[":
            steps += self._bracket()
        elif char in "\"'":
            steps.append(self._plain(constant(self._quoted(char, start), anywhere=True)))
        elif char == ".":
            steps.append(self._field())
        elif char in "+-" or char.isdecimal():
            steps.append(self._plain(constant(self._number(start))))
        elif _is_word(char):
            steps.append(self._plain(self._identifier(start)))
        else:
            _refuse(f"unrecognized character in action: {char!r}")
        return False

    def _plain(self, step: Step) -> Step:
        """A step that is no key."""
        self._keys = None
        return step

    def _takes(self, prefix: str) -> bool:
        found = self._text.startswith(prefix, self._at)
        self._at += len(prefix) if found else 0
        return found

    def _field(self) -> Step:
        start = self._at
        while (char := self._text[self._at : self._at + 1]) and char not in _TERMINATORS:
            self._at += 2 if char == "\\" else 1
        self._at = min(self._at, len(self._text))
        text = self._text[start : self._at]
        if text == "*":
            return self._plain(children)
        key = text.replace("\\", "")
        if self._keys is not None:
            self._keys.append(key)
        return field(key)

    def _identifier(self, start: int) -> Step:
        while self._text[self._at : self._at + 1] not in {"", *_TERMINATORS}:
            self._at += 1
        text = self._text[start : self._at]
        if text == "range":
            raise UnsupportedError("range is not supported")
        if text in ("true", "false"):
            return constant(text == "true")
        # Anything else is read, and fails.
        return fails(empty=text == "end")

    def _number(self, start: int) -> int | float:
        while (char := self._text[self._at : self._at + 1]) == "." or char.isdecimal():
            self._at += 1
        text = self._text[start : self._at]
        if _INTEGER.fullmatch(text) and (number := _int64(text)) is not None:
            return number
        if not _NUMBER.fullmatch(text):
            _refuse(f"cannot parse number {text}")
        return float(text)

    def _quoted(self, quote: str, start: int) -> str:
        while True:
            char = self._next()
            if char in ("", "\n"):
                _refuse("unterminated quoted string")
            if char == quote and self._text[self._at - 2] != "\\":
                break
        text = unquote(self._text[start : self._at])
        if text is None:
            _refuse(f"unquote string {self._text[start : self._at]} error invalid syntax")
        return text

    def _bracket(self) -> list[Step]:
        end = self._text.find("]", self._at)
        text = self._text[self._at : end]
        if end < 0 or "\n" in text:
            _refuse("unterminated array")
        self._at = end + 1
        text = ":" if text == "*" else text
        if "," in text:
            parts = [_inner(f"[{part.strip(' ')}]")[0] for part in text.split(",")]
            return [self._plain(union(parts))]
        if quoted := _KEY.fullmatch(text):
            steps, keys = _inner(f".{quoted[1]}")
            self._keys = None if self._keys is None or keys is None else self._keys + keys
            return steps
        match = _SLICE.fullmatch(text)
        if match is None:
            _refuse(f"invalid array index {text}")
        first, second, third = (part or "" for part in match.groups())
        bounds = [_bound(part) for part in (first, second[1:], third[1:])]
        return [self._plain(slice_of(*bounds, single=not second))]

    def _filter(self) -> Takes:
        start = self._at
        pair, closed = "", False
        while (char := self._next()) != ")" or bool(pair) != closed:
            if char in ("", "\n"):
                _refuse("unterminated filter")
            if char in "\"'" and not pair:
                pair = char
            elif char == pair and self._text[self._at - 2] != "\\":
                closed = True
        text = self._text[start : self._at - 1]
        if self._next() != "]":
            _refuse("unclosed array expect ]")
        match = _COMPARISON.fullmatch(text)
        if match is None:
            return exists(_inner(text)[0])
        left, keys = _inner(match[1])
        literal = _TEXT.fullmatch(match[3].strip(" "))
        if keys is not None and len(keys) == 1 and literal:
            return key_comparison(keys[0], match[2], literal[1] or literal[2] or "")
        return comparison(left, match[2], _inner(match[3])[0])


def _inner(text: str) -> tuple[list[Step], list[str] | None]:
    """A path within a path."""
    actions, keys = _Reader("{" + text + "}").read()
    return actions[0], keys


def _bound(text: str) -> int | None:
    if not text:
        return None
    number = None if text == "-" else _int64(text)
    if number is None:
        _refuse(f"array index {text} is not a number")
    return number


def _int64(text: str) -> int | None:
    """The number that a text is; None where it has more than 64 bits."""
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > _DIGITS:
        return None
    number = -int(digits) if text.startswith("-") else int(digits)
    return number if number in _INT64 else None


def _is_word(char: str) -> bool:
    return char == "_" or char.isalpha() or char.isdecimal()


def _refuse(text: str) -> NoReturn:
    raise UnreadableError(text)
