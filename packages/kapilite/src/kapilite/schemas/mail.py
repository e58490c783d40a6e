"""Mail addresses as Go reads them: so does the format `email`."""

from __future__ import annotations

import ipaddress

_SPECIALS = frozenset('()<>[]:;@\\,"')


def is_mail_address(text: str) -> bool:
    """One address, with or without a name before it or a comment after it."""
    return _Mail(text).is_address()


def _is_visible(character: str) -> bool:
    return "!" <= character <= "~" or character >= "\x80"


class _Mail:
    """A text that is read from left to right; each method says whether it read what it is for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def is_address(self) -> bool:
        return self._address(is_group_allowed=True) and self._comments() and not self._peek()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _space(self) -> None:
        while self._peek() and self._peek() in " \t":
            self._at += 1

    def _comments(self) -> bool:
        self._space()
        while self._take("("):
            depth = 1
            while depth and self._peek():
                if self._peek() == "\\" and self._at + 1 < len(self._text):
                    self._at += 1
                elif self._peek() in "()":
                    depth += 1 if self._peek() == "(" else -1
                self._at += 1
            if depth:
                return False
            self._space()
        return True

    def _address(self, *, is_group_allowed: bool) -> bool:
        self._space()
        if self._spec():
            return True
        if self._peek() != "<" and not self._phrase():
            return False
        self._space()
        if is_group_allowed and self._take(":"):
            is_one = self._comments() and self._address(is_group_allowed=False)
            return is_one and self._comments() and self._take(";")
        return self._take("<") and self._spec() and self._take(">")

    def _spec(self) -> bool:
        start = self._at
        self._space()
        quoted = self._at + 2
        is_local = self._quoted() and self._at > quoted if self._peek() == '"' else self._atom()
        if is_local and self._take("@"):
            self._space()
            if self._literal() if self._peek() == "[" else self._atom():
                return True
        self._at = start
        return False

    def _phrase(self) -> bool:
        is_first = True
        while True:
            if not is_first and not self._comments():
                return False
            self._space()
            start = self._at
            is_word = self._quoted() if self._peek() == '"' else self._atom(is_strict=False)
            if not is_word:
                self._at = start
                return not is_first
            is_first = False

    def _quoted(self) -> bool:
        self._at += 1
        is_escaped = False
        while character := self._peek():
            self._at += 1
            if is_escaped:
                is_escaped = False
            elif character == '"':
                return True
            elif character == "\\":
                is_escaped = True
                continue
            if not _is_visible(character) and character not in " \t":
                return False
        return False

    def _atom(self, *, is_strict: bool = True) -> bool:
        start = self._at
        while (character := self._peek()) and _is_visible(character):
            if character in _SPECIALS:
                break
            self._at += 1
        atom = self._text[start : self._at]
        is_dotted = atom.startswith(".") or atom.endswith(".") or ".." in atom
        return bool(atom) and not (is_strict and is_dotted)

    def _literal(self) -> bool:
        inner, bracket, _ = self._text[self._at + 1 :].partition("]")
        self._at += len(inner) + 2
        try:
            if inner.startswith("IPv6:"):
                ipaddress.ip_address(inner.removeprefix("IPv6:"))
            else:
                ipaddress.IPv4Address(inner)
        except ValueError:
            return False
        return bool(bracket)
