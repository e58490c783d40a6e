"""Parts of sentences that more than one message is made of."""

from __future__ import annotations

from collections.abc import Iterable

_LONGEST_QUOTE = 64
_LONGEST_NAME = 253
"""Of an object of Kubernetes."""
_FEW = 8
_CLOSEST = 3
_ALIKE = 0.75
_COMPARED = 128
"""Characters of a name."""


def listed(names: Iterable[str]) -> str:
    """The names, or that there is none."""
    return ", ".join(map(line, names)) or "none"


def line(text: str) -> str:
    """What others wrote, on one line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def sentences(*texts: str) -> str:
    """Texts one after another. After one that ends in a command a semicolon ends the command."""
    ended = (text if text.endswith(".") else f"{text};" for text in texts[:-1])
    return " ".join((*ended, *texts[-1:]))


def few(names: Iterable[str], separator: str = ", ") -> str:
    """The first names, and how many more there are; or that there is none."""
    found = list(names)
    more = len(found) - _FEW
    first = separator.join(map(line, found[:_FEW])) or "none"
    return first + (f" and {more} more" if more > 0 else "")


def closest(text: str, names: Iterable[str]) -> tuple[str, ...]:
    """The few names that may be meant: but for case, by their beginning, or alike.

    Of names of several parts the last one counts as well: it tells them apart.
    """
    known = list(dict.fromkeys(names))
    wanted = " ".join(text.lower().split())[:_COMPARED]
    if not wanted:
        return ()
    spelled = {name: {name.lower(), _last(name.lower())} for name in known}
    for fits in (str.__eq__, str.startswith):
        found = [name for name in known if any(fits(one, wanted) for one in spelled[name])]
        if found:
            return tuple(found[:_CLOSEST])
    from difflib import get_close_matches  # noqa: PLC0415 - large, and seldom needed

    by_word = {one: name for name, words in spelled.items() for one in words}
    alike = [
        one
        for part in dict.fromkeys((wanted, _last(wanted)))
        for one in get_close_matches(part, by_word, n=2 * _CLOSEST, cutoff=_ALIKE)
    ]
    return tuple(dict.fromkeys(by_word[one] for one in alike))[:_CLOSEST]


def _last(name: str) -> str:
    """`A2-4Q` of `NVIDIA A2-4Q` and of `nvidia.com/A2-4Q`."""
    return name.replace("/", " ").rpartition(" ")[2]


def quoted(text: str) -> str:
    """A text from outside, however odd and long, as a part of a line."""
    cut = ascii(text[:_LONGEST_QUOTE])
    return f"{cut[:-1]}…{cut[-1]}" if len(text) > _LONGEST_QUOTE else cut


def shown(text: str) -> str:
    """The same as it stands, if it can be a name."""
    is_plain = text.isascii() and text.isprintable() and 0 < len(text) <= _LONGEST_NAME
    return text if is_plain else quoted(text)


def short_name(name: str) -> str:
    """`A2-4Q` of `NVIDIA A2-4Q`: the name of a profile as people write it."""
    return name.rsplit(maxsplit=1)[-1] if name.strip() else name


def several(name: str, count: int) -> str:
    """`A2-4Q=2`, as commands take it."""
    return f"{line(short_name(name)) or 'unknown profile'}={count}"


def counted(vgpus: Iterable[tuple[str, int]]) -> str:
    """Profiles with their counts, `A2-4Q=2, A2-8Q=1`."""
    return ", ".join(several(name, count) for name, count in vgpus) or "nothing"


def set_enabled(kind: str, *names: str, enabled: bool) -> str:
    """The command that sets `spec.enabled` of objects."""
    spec = f'{{"spec":{{"enabled":{str(enabled).lower()}}}}}'
    return f"kubectl patch {kind} {' '.join(map(shown, names)) or 'NAME'} --type merge -p '{spec}'"
