"""Nodes with real kernels and agents, and one API server on this host that all of them use.

There are two, because emulated processors are slow and CI has two real ones. What is special to the
other pairs of kernel and framework is shown by the contract tests, which run on all of them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from laneway.api import CoreNode
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served
from laneway.roles.install import install_crds
from support.embedded import embedded
from support.guests import Guest, Objects


@pytest.fixture(scope="session")
def short() -> Iterator[Path]:
    """A folder whose path leaves room for a socket's name."""
    with tempfile.TemporaryDirectory(prefix="lw") as folder:
        yield Path(folder)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def objects(short: Path) -> AsyncIterator[Objects]:
    """The objects on our API server, started as `laneway up` starts it."""
    async with embedded(short / "server") as kubeconfig, Client(load(kubeconfig)) as client:
        await install_crds(client)
        yield Objects(client)


@pytest.fixture(scope="session")
def guests(short: Path) -> list[Guest]:
    """A node per framework, mdev on the first of LANEWAY_RIG_KERNELS, the vendor's on the last.

    These are folders of `rig/setup.sh`. The nodes are switched off.
    """
    kernels = os.environ.get("LANEWAY_RIG_KERNELS", "").split(":")
    if kernels == [""]:
        pytest.fail("these tests boot guests of the kernel rig: make test-kernel")
    _compile()
    guests = []
    for framework, kernel in (("mdev", Path(kernels[0])), ("vendor", Path(kernels[-1]))):
        name = f"{framework}-{kernel.name.replace('.', '-')}"
        folder = short / name
        folder.mkdir()
        guests.append(Guest(name, kernel, framework, folder, short / "server/kubeconfig"))
    return guests


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nodes(guests: list[Guest], objects: Objects) -> AsyncIterator[list[Guest]]:
    """The nodes, their agents ready."""
    for guest in guests:
        await objects.client.create(served(CoreNode), {"metadata": {"name": guest.name}})

    async def up(guest: Guest) -> None:
        await guest.boot()
        await guest.start_agent()

    try:
        await asyncio.gather(*map(up, guests))
        yield guests
    finally:
        await asyncio.gather(*(guest.switch_off() for guest in guests))
        for guest in guests:
            print(f"-- the agent of {guest.name}\n{guest.agent_log}")  # noqa: T201 - shown on failure


def _compile() -> None:
    """Here, where it takes a second, and not in each guest, where what is compiled is lost."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-m", "laneway", "agent", "--help"],
        check=True,
        stdout=subprocess.DEVNULL,
        env=environment,
    )
