"""Reading /dev/kmsg; a socket stands for it, which like it gives one record a read."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway.core.kernel.log import CAUGHT_UP
from laneway.host import kernel_log
from laneway.host.port import KernelLogUnavailableError
from laneway.host.real import RealHost


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The end at which the kernel writes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    monkeypatch.setattr(os, "open", lambda *_: theirs.detach())
    with ours:
        yield ours
    theirs.close()


async def test_records_come_as_messages_and_then_as_they_are_written(kernel: socket.socket) -> None:
    kernel.send(b"6,1,10,-;first\n SUBSYSTEM=pci\n")
    kernel.send(b"6,2,10,-;\n")
    kernel.send(b"6,3,10,-;second\n")
    async with kernel_log.kernel_log("/dev/kmsg") as messages:
        assert [await anext(messages) for _ in range(3)] == ["first", "second", CAUGHT_UP]
        third = asyncio.ensure_future(anext(messages))
        await asyncio.sleep(0)
        assert not third.done()
        kernel.send(b"6,4,10,-;third\n")
        assert await asyncio.wait_for(third, 20) == "third"


async def test_others_have_their_turn_while_much_is_read(kernel: socket.socket) -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    kernel.setblocking(False)
    task = asyncio.create_task(other())
    async with kernel_log.kernel_log("/dev/kmsg") as messages:
        for _ in range(3 * 256):
            kernel.send(b"6,1,10,-;x\n")
            assert await anext(messages) == "x"
    task.cancel()
    assert turns >= 2


async def test_what_was_overwritten_is_passed_over(
    kernel: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = os.read, [BrokenPipeError(errno.EPIPE, "Broken pipe")]

    def overwritten(fd: int, size: int) -> bytes:
        if failures:
            raise failures.pop()
        return read(fd, size)

    kernel.send(b"6,7,10,-;oldest that is left\n")
    async with kernel_log.kernel_log("/dev/kmsg") as messages:
        monkeypatch.setattr(os, "read", overwritten)
        assert await anext(messages) == "oldest that is left"
        assert not failures
        monkeypatch.undo()


async def test_a_log_that_breaks_is_unavailable(kernel: socket.socket) -> None:
    async with kernel_log.kernel_log("/dev/kmsg") as messages:
        assert await anext(messages) == CAUGHT_UP
        kernel.close()
        with pytest.raises(KernelLogUnavailableError, match="is not the kernel's"):
            await anext(messages)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("missing", "No such file"), ("file", "is not the kernel's"), ("folder", "Is a directory")],
)
async def test_what_is_not_the_kernels_log_is_unavailable(
    tmp_path: Path, kind: str, words: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(KernelLogUnavailableError, match=words):
        async with kernel_log.kernel_log(str(tmp_path / kind)) as messages:
            await anext(messages)


async def test_a_copy_of_a_host_has_no_log(tmp_path: Path) -> None:
    with pytest.raises(KernelLogUnavailableError, match="is a copy"):
        async with RealHost(str(tmp_path)).kernel_messages():
            raise AssertionError
