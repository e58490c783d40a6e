"""systemd-boot, which reads entries and no configuration that a program would have to make.

Kernels that are installed later get their options from `/etc/kernel/cmdline` where it exists, else
from the command line of the kernel that runs, which has the words after the reboot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laneway.core.plan import SetBootArguments
from laneway.core.preparation.loaders import entry_files
from laneway.core.preparation.loaders.loader import Files, Loader


def _steps(files: Files, groups: Sequence[str]) -> tuple[SetBootArguments, ...]:
    return entry_files.steps("systemd-boot", files, entry_files.ordinary(files), groups)


def _damage(files: Files) -> Iterator[str]:
    if not entry_files.ordinary(files):
        yield f"no entry in {', '.join(entry_files.FOLDERS)} boots this system"


def _allowed(path: str) -> bool:
    return entry_files.is_entry(path) or path in (entry_files.COMMAND_LINE, entry_files.RECORD)


LOADER = Loader(
    entries=entry_files.ordinary,
    boots=entry_files.all_entries,
    steps=_steps,
    damage=_damage,
    allowed=_allowed,
    sources=_allowed,
)
