"""`laneway capture`: this host's devices as a file that can be simulated elsewhere."""

from __future__ import annotations

import contextlib
import os
import stat

import click

from laneway.cli.errors import Failure
from laneway.host.capture import capture as dump_of
from laneway.host.real import RealHost

_STDOUT = "-"


def write_dump(file: str, *, force: bool) -> None:
    """Write the dump, complete or not at all. Raises Failure."""
    if file != _STDOUT:
        check(file, force=force)
    dump = dump_of(RealHost())
    devices = sum(line.startswith("P: ") for line in dump.split("\n"))
    if not devices:
        raise Failure("found no devices; run this on the node itself, where /sys shows them")
    content = dump.encode("utf-8", "surrogateescape")
    if file == _STDOUT:
        click.echo(content, nl=False)
    else:
        replace(os.path.realpath(file), content)
    where = "" if file == _STDOUT else f" to {file}"
    click.echo(
        f"Captured {devices} devices{where}; host names, serial numbers and MAC addresses"
        " were replaced.",
        err=True,
    )


def check(file: str, *, force: bool) -> None:
    """Before the work, say what would be found out after it."""
    try:
        mode = os.stat(file).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        raise Failure(f"{file} is no regular file; name another, or use - for standard output")
    if not force:
        raise Failure(f"{file} exists; name another file, or replace it with --force")


def replace(file: str, content: bytes) -> None:
    """Put the content in place in one step, so that a reader never finds half of it."""
    partial = f"{file}.{os.getpid()}.partial"
    try:
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            with os.fdopen(fd, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, file)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(partial)
            raise
    except OSError as error:
        raise Failure(
            f"cannot write {file}: {error.strerror}; choose a place that can be written"
        ) from None
