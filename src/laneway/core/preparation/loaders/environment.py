"""GRUB's environment block: a file of a fixed size with `name=value` lines, filled up with `#`.

GRUB reads it before it decides anything, and does not accept one of another size or without its
first line. What is written here keeps both, and the order and the bytes of every other line.
"""

from __future__ import annotations

_HEAD = "# GRUB Environment Block\n"


def problem(text: str) -> str:
    """What is wrong with a block; empty when nothing is."""
    if not text.startswith(_HEAD):
        return "it does not begin as an environment block of GRUB does"
    if len(text.encode()) % 512 or not text.rstrip("#").endswith("\n"):
        return "it has not the form of an environment block of GRUB"
    return ""


def value(text: str, name: str) -> str | None:
    """The value of a variable; None where it is not set."""
    for line in text.splitlines():
        key, mark, found = line.partition("=")
        if mark and key == name and not line.startswith("#"):
            return found.replace("\\\\", "\\")
    return None


def changed(text: str, values: dict[str, str | None]) -> str:
    """The block with variables set or, by None, removed. Raises ValueError when they do not fit."""
    size = len(text.encode())
    lines = text.rstrip("#").splitlines(keepends=True)
    left = dict(values)
    kept = []
    for line in lines:
        key, mark, _ = line.partition("=")
        if not mark or line.startswith("#") or key not in values:
            kept.append(line)
        elif (new := left.pop(key, None)) is not None:
            kept.append(_line(key, new))
    kept += [_line(key, new) for key, new in left.items() if new is not None]
    content = "".join(kept)
    room = size - len(content.encode())
    if room < 0:
        raise ValueError(f"the environment block has no room for {-room} more characters")
    return content + "#" * room


def _line(key: str, new: str) -> str:
    escaped = new.replace("\\", "\\\\")
    return f"{key}={escaped}\n"
