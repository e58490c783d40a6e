"""Runs the driver's programs on the node itself.

Below another root than `/` a program runs with that folder as its root, so that it finds its own
libraries and devices: the node's file system as a container sees it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Collection, Mapping, Sequence

from laneway.core.programs import MENU_PROGRAMS, PROGRAMS, SYSTEMCTL
from laneway.host.executors.allowed import check_argv, check_program
from laneway.host.executors.bounded import FOLDERS, GRACE, PLAIN, run_bounded
from laneway.host.port import CommandMissingError, Completed
from laneway.host.real import RealHost

_LOCALES = ("/etc/default/locale", "/etc/locale.conf")
_ON_THE_NODE = {"SYSTEMD_IGNORE_CHROOT": "1"}
"""systemctl ignores requests in what looks like a chroot; this one is of the node that runs."""
_LANG = re.compile(r'^LANG="?([A-Za-z0-9_.@-]+)"?\s*$', re.MULTILINE)


class LocalExecutor:
    """`Executor` on the node whose file system is at `root`."""

    def __init__(
        self, root: str = "/", *, programs: Collection[str] = PROGRAMS, grace: float = GRACE
    ) -> None:
        self._root = os.path.realpath(root).rstrip("/")
        self._files = RealHost(root)
        self._programs = programs
        self._grace = grace

    async def has(self, program: str) -> bool:
        check_program(program, self._programs)
        return self._find(program) is not None

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        check_argv(argv, self._programs)
        path = self._find(argv[0])
        if path is None:
            where = "" if "/" in argv[0] else f" in {', '.join(FOLDERS)}"
            raise CommandMissingError(
                errno.ENOENT, f"{argv[0]} is not installed on this node{where}"
            )
        command = [path, *argv[1:]]
        if self._root:
            command = ["/usr/sbin/chroot", self._root, *command]
        locale = self._locale() if argv[0] in MENU_PROGRAMS else PLAIN
        if argv[0] == SYSTEMCTL:
            locale = {**locale, **_ON_THE_NODE}
        ended = await run_bounded(command, argv[0], seconds, grace=self._grace, locale=locale)
        return Completed(ended.status, ended.output)

    def _locale(self) -> Mapping[str, str]:
        """That of the node, as its own services have it."""
        for path in _LOCALES:
            with contextlib.suppress(OSError):
                if found := _LANG.search(self._files.read(path).decode("utf-8", "replace")):
                    return {"LANG": found[1]}
        return PLAIN

    def _find(self, program: str) -> str | None:
        """The program's path below the root, if it is there and may be run."""
        candidates = [program] if "/" in program else [f"{part}/{program}" for part in FOLDERS]
        for candidate in candidates:
            with contextlib.suppress(OSError):
                path = self._files.resolve(candidate)
                status = os.stat(self._root + path)
                if stat.S_ISREG(status.st_mode) and os.access(self._root + path, os.X_OK):
                    # Not the resolved one: some programs do as they are called.
                    return candidate
        return None
