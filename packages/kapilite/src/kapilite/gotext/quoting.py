"""Values as Go prints them: Kubernetes' texts about permissions are made so."""

from __future__ import annotations

from collections.abc import Iterable

ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
"""Of characters that have a short one."""


def quoted(text: str) -> str:
    """What `%q` makes of a string."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_character, text)) + '"'


def quoted_list(texts: Iterable[str]) -> str:
    """What `%q` makes of a list of strings."""
    return f"[{' '.join(map(quoted, texts))}]"


def joined(errors: Iterable[str]) -> str:
    """Several errors as one, each told once."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def _character(char: str) -> str:
    code = ord(char)
    if char in ESCAPES:
        return ESCAPES[char]
    if 0xD800 <= code < 0xE000:  # no character, but what bytes that are no text become in Python
        return "\\ufffd"
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
