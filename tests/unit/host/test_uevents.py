"""Events of this machine's own kernel, provoked on the loopback interface."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from laneway.core.kernel.uevent import OVERFLOW, Uevent
from laneway.host import uevents
from laneway.host.port import UeventsUnavailableError
from laneway.host.real import RealHost

TRIGGER = "/sys/class/net/lo/uevent"
LOOPBACK = "/devices/virtual/net/lo"


@pytest.fixture
async def events() -> AsyncIterator[AsyncIterator[Uevent]]:
    if not os.access(TRIGGER, os.W_OK):
        pytest.skip("needs root: events are provoked by writing to sysfs")
    try:
        async with RealHost().uevents() as events:
            yield events
    except UeventsUnavailableError as error:
        pytest.skip(str(error))


async def next_of(events: AsyncIterator[Uevent], devpath: str) -> Uevent:
    async with asyncio.timeout(20):
        async for event in events:
            if event.devpath == devpath:
                return event
    raise AssertionError


async def test_an_event_between_entering_and_iterating_is_seen(
    events: AsyncIterator[Uevent],
) -> None:
    RealHost().write(TRIGGER, "change")
    event = await next_of(events, LOOPBACK)
    assert (event.action, event.subsystem) == ("change", "net")


async def test_only_the_kernel_is_believed(events: AsyncIterator[Uevent]) -> None:
    forged = b"remove@/devices/forged\0ACTION=remove\0SUBSYSTEM=pci\0"
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 15) as sock:
        sock.bind((0, 0))
        sock.sendto(forged, (0, 1))
    RealHost().write(TRIGGER, "change")
    async with asyncio.timeout(20):
        async for event in events:
            assert event.devpath != "/devices/forged"
            if event.devpath == LOOPBACK:
                break


async def test_lost_events_are_announced_and_the_next_ones_arrive(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if not os.access(TRIGGER, os.W_OK):
        pytest.skip("needs root: events are provoked by writing to sysfs")
    monkeypatch.setattr(uevents, "_BUFFER", 2048)
    try:
        async with RealHost().uevents() as events:
            for _ in range(100):
                RealHost().write(TRIGGER, "change")
            async with asyncio.timeout(20):
                async for event in events:
                    if event is OVERFLOW:
                        break
            RealHost().write(TRIGGER, "change")
            assert (await next_of(events, LOOPBACK)).action == "change"
    except UeventsUnavailableError as error:
        pytest.skip(str(error))


def test_in_a_user_namespace_it_says_why_there_are_none() -> None:
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Urn", "true"], check=False).returncode:
        pytest.skip("needs permission to make a user namespace")
    program = """
import asyncio
from laneway.host.real import RealHost
async def main():
    async with RealHost().uevents():
        pass
asyncio.run(main())
"""
    done = subprocess.run(
        [unshare, "-Urn", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "UeventsUnavailableError: this network namespace belongs to a user namespace" in last
