"""Writes that may block: made once, answered with the errno, left behind without harm."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from laneway.host.real import RealHost

PLENTY = 30.0


@pytest.fixture
def host(tmp_path: Path) -> RealHost:
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys" / "attribute").write_text("abcdef")
    (tmp_path / "sys" / "link").symlink_to("/sys/attribute")
    (tmp_path / "sys" / "outside").symlink_to("../../../../../../dev/full")
    return RealHost(str(tmp_path))


async def test_a_write_reaches_the_file_and_makes_none(host: RealHost) -> None:
    await host.write_within("/sys/attribute", "xy", PLENTY)
    await host.write_within("/sys/link", "z", PLENTY)

    assert host.read("/sys/attribute") == b"zycdef"
    with pytest.raises(FileNotFoundError) as refused:
        await host.write_within("/sys/new", "1", PLENTY)
    assert refused.value.filename == "/sys/new"
    assert not host.exists("/sys/new")


async def test_no_write_leads_outside(host: RealHost) -> None:
    with pytest.raises(FileNotFoundError):
        await host.write_within("/sys/outside", "1", PLENTY)


async def test_the_errno_of_the_kernel_comes_back() -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as refused:
        await RealHost().write_within("/dev/full", "1", PLENTY)
    assert refused.value.errno == errno.ENOSPC
    assert refused.value.filename == "/dev/full"


async def test_a_write_that_blocks_is_left_behind_and_others_go_on(
    host: RealHost, tmp_path: Path
) -> None:
    held = tmp_path / "sys" / "held"
    os.mkfifo(held)  # without a reader, to open it waits as to unbind a held device does

    with pytest.raises(OSError, match="no answer") as refused:
        await host.write_within("/sys/held", "1", 0.05)
    await host.write_within("/sys/attribute", "xy", PLENTY)

    assert refused.value.errno == errno.ETIMEDOUT
    assert host.read("/sys/attribute") == b"xycdef"
    # The write that was left behind is still made, once, when the holder closes it.
    with held.open("rb", buffering=0) as reader:
        assert await asyncio.to_thread(reader.read, 16) == b"1"


async def test_writes_wait_side_by_side(host: RealHost, tmp_path: Path) -> None:
    paths = [tmp_path / "sys" / f"held{number}" for number in range(3)]
    for path in paths:
        os.mkfifo(path)
    writes = [
        asyncio.create_task(host.write_within(f"/sys/{path.name}", path.name, PLENTY))
        for path in paths
    ]

    contents = [await asyncio.to_thread(path.read_bytes) for path in reversed(paths)]
    await asyncio.gather(*writes)

    assert contents == [b"held2", b"held1", b"held0"]


async def test_a_writer_that_was_killed_is_replaced(host: RealHost) -> None:
    await host.write_within("/sys/attribute", "1", PLENTY)
    [writer] = host._writers._idle
    os.kill(writer.pid, 9)
    await asyncio.to_thread(os.waitid, os.P_PID, writer.pid, os.WEXITED | os.WNOWAIT)

    await host.write_within("/sys/attribute", "2", PLENTY)

    assert host.read("/sys/attribute") == b"2bcdef"


_AGENT = """
import asyncio, sys
from laneway.host.real import RealHost
async def main():
    host = RealHost(sys.argv[1])
    try:
        await host.write_within("/held", "1", 0.05)
    except OSError as error:
        print(error.strerror)
asyncio.run(main())
"""


def test_a_write_that_blocks_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)

    ended = subprocess.run(
        [sys.executable, "-c", _AGENT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "no answer from the kernel" in ended.stdout
    with held.open("rb") as reader:  # or its writer would wait for ever
        assert reader.read() == b"1"


def test_owners_are_read_and_changed_without_following_a_link(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "node").touch()
    (tmp_path / "dev" / "link").symlink_to("node")
    host = RealHost(str(tmp_path))
    mine = os.getuid(), os.getgid()
    given = (107, 107) if os.getuid() == 0 else mine

    host.set_owner("/dev/link", *given)
    untouched = host.owner("/dev/node")
    host.set_owner("/dev/node", *given)

    assert untouched == mine
    assert host.owner("/dev/node") == given
    with pytest.raises(FileNotFoundError):
        host.set_owner("/dev/missing", *given)
