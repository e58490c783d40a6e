"""GRUB as Elemental sets it up, on Harvester: the system is an image, and does not keep files.

Kernel arguments of the image are in its `/etc/cos/bootargs.cfg`. It adds the variable
`third_party_kernel_args` of the environment block on the OEM partition, which upgrades keep. What
Laneway has added to it is in a variable of its own, so that both change in one write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from laneway.core.plan import SetBootArguments
from laneway.core.preparation.arguments import split, without
from laneway.core.preparation.loaders import entry_files, environment
from laneway.core.preparation.loaders.loader import Entry, Files, Loader, put_on, take_off

ENVIRONMENT = "/oem/grubenv"
IMAGE = "/etc/cos/bootargs.cfg"
STAGE = "/oem/92_laneway.yaml"
"""A cloud-init file that the system carries out at every boot."""
_VARIABLE = "third_party_kernel_args"
_RECORD = "laneway_kernel_args"
_LINE = re.compile(r'set kernelcmd="([^"]*)"')
_RECOVERY = "root=live:"


def _image(files: Files) -> tuple[str, ...]:
    """Words that the image has by itself."""
    found = [split(one) for one in _LINE.findall(files.get(IMAGE, ""))]
    ordinary = [words for words in found if not any(w.startswith(_RECOVERY) for w in words)]
    return tuple(word for word in (ordinary or [()])[-1] if word[0] not in "$\\")


def _entries(files: Files) -> tuple[Entry, ...]:
    text = files.get(ENVIRONMENT, "")
    ours = split(environment.value(text, _RECORD) or "")
    added = split(environment.value(text, _VARIABLE) or "")
    return (Entry(ENVIRONMENT, (*_image(files), *added), ours),)


def _steps(files: Files, groups: Sequence[str]) -> tuple[SetBootArguments, ...]:
    [entry] = _entries(files)
    words = entry_files.missing(without(entry.words, entry.ours), groups)
    text = files.get(ENVIRONMENT)
    if text is None:
        if words:
            raise ValueError(f"{ENVIRONMENT} is not there")
        return ()
    value = environment.value(text, _VARIABLE)
    # Where the value is Laneway's words alone, there was no such variable before them.
    alone = value is None or (bool(entry.ours) and value == " ".join(entry.ours))
    theirs = None if value is None or alone else take_off(value, entry.ours)
    added = put_on(theirs, words) if theirs is not None else " ".join(words)
    after = environment.changed(
        text,
        {
            _VARIABLE: None if theirs is None and not words else added,
            _RECORD: " ".join(words) or None,
        },
    )
    if after == text:
        return ()
    return (SetBootArguments("elemental", ENVIRONMENT, text, after, words, entry.ours),)


def _damage(files: Files) -> Iterator[str]:
    text = files.get(ENVIRONMENT)
    if text is None:
        yield f"{ENVIRONMENT} is not there"
    elif wrong := environment.problem(text):
        yield f"{ENVIRONMENT} is damaged: {wrong}"
    if _VARIABLE not in files.get(IMAGE, ""):
        yield f"{IMAGE} does not add ${_VARIABLE} to the kernel command line"


LOADER = Loader(
    entries=_entries,
    boots=lambda _: (),
    steps=_steps,
    damage=_damage,
    allowed=lambda path: path == ENVIRONMENT,
    sources=lambda path: path in (ENVIRONMENT, IMAGE),
)
