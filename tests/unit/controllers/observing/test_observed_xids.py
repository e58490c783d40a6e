"""Which GPUs of a host must not be allocated, by its kernel log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager

import pytest

from laneway.controllers.observing.xids import Xids
from laneway.core.pci import PciAddress
from laneway.host.port import KernelLogUnavailableError
from laneway.host.xids import KERNEL_LOG, reset_message
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

CARD, AUDIO, OTHER = (
    PciAddress.parse(text) for text in ("0000:08:00.0", "0000:08:00.1", "0000:09:00.0")
)
LOST = "NVRM: Xid (PCI:0000:08:00): 79, pid=0, GPU has fallen off the bus."
ECC = "NVRM: Xid (PCI:0000:08:00): 48, pid=0, name=x, DBE"
SAYS_LOST = (
    "0000:08:00.0 reported Xid 79 (the GPU has fallen off the bus): the node must be rebooted"
)


@pytest.fixture
def host() -> SimulatedHost:
    return build(parse_spec("workstation"), "node")


@contextlib.asynccontextmanager
async def watching(host: SimulatedHost) -> AsyncIterator[tuple[Xids, Callable[[], object]]]:
    """An observer that has read what was there, and a wait for its next change."""
    xids, changed = Xids(host), asyncio.Event()
    xids.subscribe(changed.set)
    task = asyncio.create_task(xids.run())
    await asyncio.wait_for(xids.caught_up.wait(), 20)
    changed.clear()

    async def change() -> None:
        await asyncio.wait_for(changed.wait(), 20)
        changed.clear()

    yield xids, change
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_fault_counts_for_the_whole_slot_and_no_other(host: SimulatedHost) -> None:
    async with watching(host) as (xids, change):
        assert xids.of(CARD) == ""
        host.kernel_message("NVRM: Xid (PCI:0000:08:00): 31, pid=1, MMU Fault\n" + LOST)
        await change()
        assert xids.of(CARD) == xids.of(AUDIO) == SAYS_LOST
        assert xids.of(OTHER) == ""
        assert xids.faults == {CARD: SAYS_LOST}


async def test_a_new_agent_knows_what_the_boot_has_seen(host: SimulatedHost) -> None:
    host.kernel_message(ECC)
    host.kernel_message(LOST)
    async with watching(host) as (xids, _):
        assert xids.of(CARD) == SAYS_LOST


async def test_a_reset_of_the_card_ends_it_for_every_agent(host: SimulatedHost) -> None:
    host.kernel_message(ECC)
    async with watching(host) as (xids, change):
        host.write(KERNEL_LOG, f"{reset_message(AUDIO)}\n")
        host.write(KERNEL_LOG, f"{reset_message(CARD)}\n")
        await change()
        assert xids.of(CARD) == ""
    async with watching(host) as (xids, change):
        assert xids.of(CARD) == ""
        host.kernel_message(LOST)
        await change()
        assert xids.of(CARD) == SAYS_LOST


async def test_a_reset_of_another_function_of_the_slot_ends_nothing(host: SimulatedHost) -> None:
    host.kernel_message(LOST)
    host.write(KERNEL_LOG, f"{reset_message(AUDIO)}\n")
    async with watching(host) as (xids, _):
        assert xids.of(CARD) == SAYS_LOST


async def test_what_the_driver_takes_back_is_over(host: SimulatedHost) -> None:
    host.kernel_message(ECC)
    async with watching(host) as (xids, change):
        host.kernel_message(
            "NVRM: Xid (PCI:0000:08:00): 154, GPU recovery action changed "
            "from 0x1 (GPU Reset Required) to 0x0 (None)"
        )
        await change()
        assert xids.faults == {}


async def test_where_the_log_cannot_be_read_that_is_said(
    host: SimulatedHost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> AbstractAsyncContextManager[AsyncIterator[str]]:
        raise KernelLogUnavailableError("/dev/kmsg cannot be read (Operation not permitted)")

    monkeypatch.setattr(host, "kernel_messages", refuse)
    xids = Xids(host)
    await xids.run()
    assert xids.caught_up.is_set()
    assert xids.unavailable == "/dev/kmsg cannot be read (Operation not permitted)"
    assert xids.of(CARD) == ""
    assert "cannot read the errors that GPUs report" in caplog.text
