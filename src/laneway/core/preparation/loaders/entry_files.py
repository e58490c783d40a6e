"""Entries of the Boot Loader Specification: one file each, read by systemd-boot and by GRUB.

What Laneway adds stands at the end of the entry's options, and once more in a comment, so that it
is known to be Laneway's however often an administrator wrote the same words elsewhere. An entry
that an installer of kernels has made since has no comment: what it took over from
`/etc/kernel/cmdline`, or from the command line of the kernel that ran, is in `RECORD`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from laneway.core.plan import SetBootArguments
from laneway.core.preparation.arguments import lacks, of_kernel, split, without
from laneway.core.preparation.facts import LoaderName
from laneway.core.preparation.loaders.loader import Entry, Files, put_on, take_off

FOLDERS = ("/boot/loader/entries", "/efi/loader/entries", "/boot/efi/loader/entries")
"""Where entries are: on /boot, or on the partition that firmware reads."""
COMMAND_LINE = "/etc/kernel/cmdline"
"""What installers of kernels take options from, where it exists."""
RECORD = "/etc/kernel/laneway-arguments"
"""The words that Laneway has added to entries."""

_NAME = re.compile(rf"(?:{'|'.join(FOLDERS)})/[A-Za-z0-9][A-Za-z0-9._+~-]*\.conf")
_COMMENT = "# added by Laneway: "
_RESCUE = re.compile(r"rescue|memtest")


def is_entry(path: str) -> bool:
    return _NAME.fullmatch(path) is not None


def is_rescue(path: str) -> bool:
    """Whether an entry is the way back when others fail: it stays as it is."""
    return _RESCUE.search(path.rpartition("/")[2]) is not None


def recorded(files: Files) -> dict[str, tuple[str, ...]]:
    """The words that Laneway has added, by what it added them to."""
    found = {}
    for line in files.get(RECORD, "").splitlines():
        place, mark, words = line.partition(": ")
        if mark and not line.startswith("#"):
            found[place] = tuple(words.split())
    return found


def parse(path: str, files: Files) -> Entry | None:
    """The entry; None for one that starts no kernel by itself (`efi`)."""
    text = files[path]
    fields: dict[str, list[str]] = {}
    for line in text.splitlines():
        key, *found = line.split(None, 1) or [""]
        fields.setdefault(key, []).append("".join(found).rstrip())
    if "linux" not in fields:
        return None
    options = " ".join(fields.get("options", []))
    initrds = " ".join(fields.get("initrd", [])).split()
    return Entry(
        path,
        split(options),
        _own(text, options, files),
        fields["linux"][-1],
        tuple(one for one in initrds if not one.startswith("$")),
    )


def all_entries(files: Files) -> tuple[Entry, ...]:
    """Every entry that starts a kernel."""
    found = (parse(path, files) for path in sorted(files) if is_entry(path))
    return tuple(entry for entry in found if entry is not None)


def ordinary(files: Files) -> tuple[Entry, ...]:
    """The same without rescue entries."""
    return tuple(entry for entry in all_entries(files) if not is_rescue(entry.place))


def _own(text: str, options: str, files: Files) -> tuple[str, ...]:
    """The words of an entry that are Laneway's."""
    for line in text.splitlines():
        if line.startswith(_COMMENT):
            return tuple(line.removeprefix(_COMMENT).split())
    # The installer may have put words of its own after those that it took over.
    known = (words for words in recorded(files).values() if words)
    return next((w for w in known if f" {' '.join(w)} " in f" {options} "), ())


def steps(
    loader: LoaderName,
    files: Files,
    entries: Sequence[Entry],
    groups: Sequence[str],
    record: Mapping[str, Sequence[str]] = {},
) -> tuple[SetBootArguments, ...]:
    """Have the words in entries and, where it exists, in `COMMAND_LINE`.

    `record`: what is added elsewhere.
    """
    changes: list[SetBootArguments] = []
    added: dict[str, Sequence[str]] = dict(record)
    had = recorded(files)
    if (line := files.get(COMMAND_LINE)) is not None:
        bare = line.rstrip("\n")
        ours = had.get(COMMAND_LINE, ())
        words = missing(without(split(bare), ours), groups)
        after = put_on(take_off(bare, ours), words) + line[len(bare) :]
        added[COMMAND_LINE] = words
        changes.append(SetBootArguments(loader, COMMAND_LINE, line, after, words, ours))
    for entry in entries:
        words = missing(without(entry.words, entry.ours), groups)
        text = files[entry.place]
        after = _rewritten(text, entry.ours, words)
        added["entries"] = tuple(dict.fromkeys((*added.get("entries", ()), *words)))
        changes.append(SetBootArguments(loader, entry.place, text, after, words, entry.ours))
    before, now = files.get(RECORD), _record_text(added)
    noted = SetBootArguments(loader, RECORD, before, now)
    # Noted before the first word is added, and forgotten after the last one is removed.
    ordered = [noted, *changes] if now else [*changes, noted]
    return tuple(step for step in ordered if step.before != step.after)


def missing(words: Sequence[str], groups: Sequence[str]) -> tuple[str, ...]:
    """The words that must be added to those of an administrator."""
    kernel = of_kernel(words)
    return tuple(word for group in groups if lacks(kernel, group) for word in group.split())


def _rewritten(text: str, ours: Sequence[str], words: Sequence[str]) -> str:
    """The entry with these words of Laneway's in place of those that it has."""
    ended = text.endswith("\n")
    lines = [f"{line}\n" for line in text.splitlines() if not line.startswith(_COMMENT)]
    at = max(
        (n for n, line in enumerate(lines) if line.split(None, 1)[:1] == ["options"]), default=-1
    )
    if at >= 0:
        lines[at] = put_on(take_off(lines[at].rstrip("\n"), ours), words) + "\n"
    elif words:
        lines.append(f"options {' '.join(words)}\n")
    if lines[at:] == ["options\n"] and ours:
        del lines[at]
    if words:
        lines.append(f"{_COMMENT}{' '.join(words)}\n")
    return "".join(lines) if ended else "".join(lines).removesuffix("\n")


def _record_text(added: Mapping[str, Sequence[str]]) -> str | None:
    lines = [f"{place}: {' '.join(words)}\n" for place, words in added.items() if words]
    return "".join(["# Kernel arguments that Laneway has added.\n", *lines]) if lines else None
