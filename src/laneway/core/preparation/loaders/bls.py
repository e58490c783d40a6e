"""GRUB that reads entries (`blscfg`), as on RHEL and its like.

Where entries take over `$kernelopts`, as on RHEL 8, the words go into that variable of GRUB's
environment block: so kernels that are installed later have them too. Elsewhere they go into the
entries and into `/etc/kernel/cmdline`, from which later kernels take them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laneway.core.plan import SetBootArguments
from laneway.core.preparation.arguments import split, without
from laneway.core.preparation.loaders import entry_files, environment
from laneway.core.preparation.loaders.loader import Entry, Files, Loader, put_on, take_off

ENVIRONMENT = "/boot/grub2/grubenv"
_VARIABLE = "kernelopts"


def _shared(files: Files) -> str | None:
    """The value of the variable, where entries take it over."""
    value = environment.value(files.get(ENVIRONMENT, ""), _VARIABLE)
    return value if any(map(_takes_over, entry_files.ordinary(files))) else None


def _takes_over(entry: Entry) -> bool:
    return f"${_VARIABLE}" in entry.words


def _full(entry: Entry, files: Files) -> Entry:
    """The entry with the words of the variable in place of its name."""
    shared = environment.value(files.get(ENVIRONMENT, ""), _VARIABLE)
    if shared is None or not _takes_over(entry):
        return entry
    at = entry.words.index(f"${_VARIABLE}")
    words = (*entry.words[:at], *split(shared), *entry.words[at + 1 :])
    return entry._replace(words=words, ours=entry_files.recorded(files).get(ENVIRONMENT, ()))


def _entries(files: Files) -> tuple[Entry, ...]:
    return tuple(_full(entry, files) for entry in entry_files.ordinary(files))


def _boots(files: Files) -> tuple[Entry, ...]:
    return tuple(_full(entry, files) for entry in entry_files.all_entries(files))


def _steps(files: Files, groups: Sequence[str]) -> tuple[SetBootArguments, ...]:
    shared = _shared(files)
    if shared is None:
        return entry_files.steps("bls", files, entry_files.ordinary(files), groups)
    had = entry_files.recorded(files).get(ENVIRONMENT, ())
    words = entry_files.missing(without(split(shared), had), groups)
    others = [entry for entry in entry_files.ordinary(files) if not _takes_over(entry)]
    steps = entry_files.steps("bls", files, others, groups, {ENVIRONMENT: words})
    text = files[ENVIRONMENT]
    value = put_on(take_off(shared, had), words)
    after = environment.changed(text, {_VARIABLE: value})
    if after == text:
        return steps
    step = SetBootArguments("bls", ENVIRONMENT, text, after, words, had)
    # The record is first or last: see `entry_files.steps`.
    return (*steps, step) if words else (step, *steps)


def _damage(files: Files) -> Iterator[str]:
    if not entry_files.ordinary(files):
        yield f"no entry in {entry_files.FOLDERS[0]} boots this system"
    taken = any(map(_takes_over, entry_files.ordinary(files)))
    if (text := files.get(ENVIRONMENT)) is not None and (wrong := environment.problem(text)):
        yield f"{ENVIRONMENT} is damaged: {wrong}"
    elif taken and environment.value(text or "", _VARIABLE) is None:
        yield f"entries take over ${_VARIABLE}, which {ENVIRONMENT} does not set"


def _allowed(path: str) -> bool:
    own = (entry_files.COMMAND_LINE, entry_files.RECORD, ENVIRONMENT)
    return entry_files.is_entry(path) or path in own


LOADER = Loader(
    entries=_entries,
    boots=_boots,
    steps=_steps,
    damage=_damage,
    allowed=_allowed,
    sources=_allowed,
)
