"""The API servers that are compared, each with TLS, tokens and RBAC, seen from outside alone.

`embedded` is the server of `laneway up` in a process of its own, `real` is kube-apiserver with its
etcd. Neither waits for the disk at a commit: SQLite writes its log through the page cache, and etcd
runs without fsync where it can.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from support.children import start

_SCRIPTS = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "real-apiserver")
_PROGRAMS = ("etcd", "kube-apiserver")
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Server(NamedTuple):
    """A running API server."""

    name: str
    admin: str
    """The kubeconfig of one who may do everything."""
    user: str
    """The kubeconfig of one who may do what roles allow."""
    start: float
    """Seconds from nothing until it was ready, on a new data directory."""
    pids: tuple[int, ...]

    def cpu(self) -> float:
        """The seconds that its processes have computed."""
        ticks = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                after_name = file.read().rpartition(")")[2].split()
            ticks += int(after_name[11]) + int(after_name[12])
        return ticks / _TICK

    def memory(self) -> float:
        """What its processes hold in memory, in MB."""
        pages = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                pages += int(file.read().split()[1])
        return pages * _PAGE / 1e6


@asynccontextmanager
async def embedded(directory: str) -> AsyncIterator[Server]:
    began = time.perf_counter()
    async with start("api_server", directory) as child:
        admin = await child.answer()
        took = time.perf_counter() - began
        yield Server("laneway", admin, f"{admin}.user", took, (child.pid,))


@asynccontextmanager
async def real(programs: str, directory: str) -> AsyncIterator[Server]:
    """Without its controller manager, which is no part of the comparison."""
    chosen = os.path.join(directory, "bin")
    state = os.path.join(directory, "state")
    os.mkdir(chosen)
    for name in _PROGRAMS:
        os.symlink(os.path.join(programs, name), os.path.join(chosen, name))
    began = time.perf_counter()
    await _script("start.sh", chosen, state)
    took = time.perf_counter() - began
    try:
        pids = tuple(_pid(state, name) for name in _PROGRAMS)
        admin = os.path.join(state, "kubeconfig")
        yield Server("kube-apiserver", admin, f"{admin}.user", took, pids)
    finally:
        await _script("stop.sh", state)


def find_real(environment: Mapping[str, str] = os.environ) -> str | None:
    """The folder of the real programs: KUBEBUILDER_ASSETS, else what tools/tiers.sh has built."""
    home = os.path.expanduser("~/.cache")
    cache = os.path.join(environment.get("XDG_CACHE_HOME") or home, "laneway", "kubernetes", "bin")
    for folder in (environment.get("KUBEBUILDER_ASSETS"), cache):
        if folder and all(os.access(os.path.join(folder, name), os.X_OK) for name in _PROGRAMS):
            return os.path.abspath(folder)
    return None


async def _script(name: str, *args: str) -> None:
    process = await asyncio.create_subprocess_exec(
        os.path.join(_SCRIPTS, name), *args, stdout=asyncio.subprocess.DEVNULL
    )
    if status := await process.wait():
        raise SystemExit(f"tools/real-apiserver/{name} failed with status {status}")


def _pid(state: str, name: str) -> int:
    with open(os.path.join(state, f"{name}.pid"), encoding="ascii") as file:
        return int(file.read())
