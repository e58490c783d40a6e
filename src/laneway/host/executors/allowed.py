"""What an executor agrees to run, checked before anything is started.

Everything that reaches an executor was made by Laneway, so this refuses nothing in normal work. It
is here so that a mistake elsewhere cannot become a command of an attacker's choice on the node.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence


def check_program(program: str, programs: Collection[str]) -> None:
    """Raises PermissionError for a program that is not in the table."""
    if program not in programs:
        raise PermissionError(
            errno.EPERM, f"{program!r} is not a program that Laneway runs; report this"
        )


def check_argv(argv: Sequence[str], programs: Collection[str]) -> None:
    """The program is in the table, and each argument is a plain, printable word."""
    check_program(argv[0] if argv else "", programs)
    for argument in argv[1:]:
        if not argument.isprintable():
            raise OSError(errno.EINVAL, f"{argument!r} cannot be an argument of {argv[0]}")
