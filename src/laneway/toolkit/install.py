"""Runs NVIDIA's installer for one package, and says why it failed.

What is run is a private copy, whose hash is that of the bytes that were copied. The installer gets
an argument vector, no secret of ours in its environment, a folder of its own to unpack in, and a
time limit; everything that it started ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from laneway.core.driver_toolkit import failure, installer
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.driver_toolkit.state import Driver
from laneway.core.printed import clean
from laneway.host.executors.bounded import Ended, run_bounded
from laneway.toolkit.cache import Cache, private_copy
from laneway.toolkit.places import Places

SECONDS = 3600.0
"""For all of an installation; a build takes minutes."""
_HELP_SECONDS = 120.0
_LOG = 256 * 1024


class Build(NamedTuple):
    """What the kernel's modules are built from, and where they go."""

    headers: str
    """Empty where they are built already."""
    modules: str


async def install(
    cache: Cache, driver: Driver, places: Places, build: Build | None, seconds: float = SECONDS
) -> None:
    """Install a package from the cache; its programs alone without `build`. Raises ToolkitError."""
    folder = os.path.join(places.scratch, "install")
    shutil.rmtree(folder, ignore_errors=True)  # of a container that was killed
    os.makedirs(folder, mode=0o700)
    try:
        package = os.path.join(folder, f"NVIDIA-Linux-{driver.version}-vgpu-kvm.run")
        await _checked_copy(cache, driver, package)
        known = await _options(package, driver)
        log = os.path.join(folder, "installer.log")
        if build and build.headers:
            argv = installer.arguments(
                package, known, folder=folder, log=log, headers=build.headers, modules=build.modules
            )
        else:
            argv = installer.programs_only(package, known, folder=folder, log=log)
        ended = await _run(argv, driver, seconds)
        if ended.status != 0:
            lines = installer.telling_lines(_end_of(log) or ended.output)
            raise ToolkitError(failure.build_failed(driver.version, ended.status, lines))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _checked_copy(cache: Cache, driver: Driver, target: str) -> None:
    try:
        found = await asyncio.to_thread(private_copy, cache.package(driver.sha256), target)
        size = os.stat(target).st_size
    except OSError as error:
        raise ToolkitError(failure.no_room(error, target)) from None
    if found != driver.sha256:
        path = cache.package(driver.sha256)
        cache.discard(driver.sha256)
        raise ToolkitError(failure.wrong_hash(path, driver.sha256, found, size))


async def _options(package: str, driver: Driver) -> frozenset[str]:
    argv = ["/bin/sh", package, installer.ASK]
    return installer.options_of((await _run(argv, driver, _HELP_SECONDS)).output)


async def _run(argv: Sequence[str], driver: Driver, seconds: float) -> Ended:
    try:
        return await run_bounded(argv, "the installer", seconds)
    except TimeoutError:
        raise ToolkitError(failure.took_too_long(driver.version, seconds)) from None
    except OSError as error:
        why = error.strerror or str(error)
        raise ToolkitError(failure.build_failed(driver.version, 127, why)) from None


def _end_of(path: str) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - _LOG, 0))
        return clean(file.read())
    return ""
