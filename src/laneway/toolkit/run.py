"""A container of the toolkit from its start to its end.

Whatever is wrong with the wanted driver is found, as far as it can be, before the running one is
touched: the package is complete and has its hash, the headers are there, nothing holds a GPU. If it
fails all the same, the driver that served before comes back from what the node has kept of it. A
failure that may pass (a server that does not answer, a vGPU in use) is tried again, and the former
driver serves meanwhile. Only where none can serve does the container end, and Kubernetes shows why.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from collections.abc import AsyncIterator
from typing import NamedTuple

from laneway.core.driver_toolkit import failure
from laneway.core.driver_toolkit import settings as rules
from laneway.core.driver_toolkit.decide import Action, decide
from laneway.core.driver_toolkit.failure import Failure, ToolkitError
from laneway.core.driver_toolkit.settings import Settings
from laneway.core.driver_toolkit.state import Driver, answered, fallback, kept
from laneway.host.attributes import clean
from laneway.host.modules import kernel_release
from laneway.host.port import Host
from laneway.host.real import RealHost
from laneway.toolkit import modules
from laneway.toolkit.answering import ask_driver
from laneway.toolkit.cache import Cache
from laneway.toolkit.daemons import Daemons, adopt
from laneway.toolkit.download import Pace
from laneway.toolkit.headers import find_headers
from laneway.toolkit.holding import read_holding
from laneway.toolkit.install import Build, install
from laneway.toolkit.obtain import obtain
from laneway.toolkit.places import Places
from laneway.toolkit.record import Record, alone

log = logging.getLogger(__name__)


class Patience(NamedTuple):
    """Seconds between two attempts after a failure that may pass."""

    first: float = 15.0
    longest: float = 300.0
    download: Pace = Pace()


PATIENCE = Patience()


async def run_toolkit(
    settings: Settings,
    places: Places,
    patience: Patience = PATIENCE,
) -> None:
    """Install the driver and keep it in service. Raises ToolkitError when none can serve."""
    if found := rules.problems(settings):
        raise _failed(places, failure.settings_invalid(found))
    adopt()
    try:
        os.makedirs(places.state, mode=0o700, exist_ok=True)
        with alone(places.lock):
            toolkit = Toolkit(settings, places, patience)
            async with toolkit.closing():
                await toolkit.run()
    except ToolkitError as error:
        raise _failed(places, error.failure) from None
    except OSError as error:
        raise _failed(places, failure.no_room(error, places.state)) from None


def _failed(places: Places, found: Failure) -> ToolkitError:
    """The failure, which Kubernetes is shown as well."""
    if os.path.exists(places.termination):
        with contextlib.suppress(OSError), open(places.termination, "w", encoding="utf-8") as file:
            file.write(f"{found.reason}: {found.message}\n")
    return ToolkitError(found)


class Toolkit:
    """The work on one node, by one container."""

    def __init__(self, settings: Settings, places: Places, patience: Patience) -> None:
        self._settings = settings
        self._places = places
        self._patience = patience
        self._wanted = Driver(settings.version, settings.sha256)
        self._host: Host = RealHost()
        self._cache = Cache(places.state)
        self._record = Record(places.record)
        self._daemons = Daemons()
        self._interfered = False
        """A driver was taken out of the kernel in this attempt."""
        self._told = ""

    @contextlib.asynccontextmanager
    async def closing(self) -> AsyncIterator[None]:
        """Whatever ends the work ends the daemons, and is noted."""
        try:
            yield
        finally:
            await self._daemons.stop()
            with contextlib.suppress(ToolkitError):
                ended = self._record.state.stage == "Failed"
                self._record.change(stage="Failed" if ended else "Stopped", serving=None)

    async def run(self) -> None:
        """Until it is cancelled, or nothing can serve. Raises ToolkitError."""
        boot = clean(self._host.read("/proc/sys/kernel/random/boot_id"))
        self._record.begin(self._wanted, boot, kernel_release(self._host))
        pause = self._patience.first
        while True:
            found = await self._attempt()
            limit = pause if found and found.passing else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await self._daemons.watch()
            # What is in use is looked at as often as before: it may be free at any time.
            if found and found.reason != failure.IN_USE:
                pause = min(2 * pause, self._patience.longest)

    async def _attempt(self) -> Failure | None:
        """Bring the wanted driver into service, or else a former one; why it is not the wanted."""
        self._interfered = False
        try:
            await self._obtain()
            await self._bring_up(self._wanted)
        except ToolkitError as error:
            return await self._fall_back(error.failure)
        self._record.note(stage="Ready", reason="", message="")
        log.info("driver %s is in service", self._wanted.version)
        for one in self._cache.keep_only(kept(self._record.state)):
            log.info("the package %s is no longer needed and was removed", one)
        return None

    async def _obtain(self) -> None:
        if not self._serves():
            self._record.change(stage="Downloading", reason="", message="")
        await obtain(self._cache, self._settings, self._say, self._patience.download)

    async def _bring_up(self, driver: Driver) -> None:
        """Have a driver of the cache in the kernel and in this container. Raises ToolkitError."""
        try:
            await self._change_to(driver)
        except OSError as error:
            raise ToolkitError(failure.no_room(error, "the node")) from None

    async def _change_to(self, driver: Driver) -> None:
        action = await self._decide(driver)
        release = self._record.state.kernel
        build = None if action == "attach" else self._prepare(driver, release)
        await self._take_out_of_service(unload=action == "replace")
        log.info("installing driver %s (%s)", driver.version, action)
        self._record.change(stage="Installing", message=f"installing driver {driver.version}")
        await install(self._cache, driver, self._places, build)
        if build:
            self._record.change(stage="Loading", message=f"loading driver {driver.version}")
            await modules.load(build.modules, release)
        await self._check(driver)
        if build and build.headers:
            self._keep_built(driver, build.modules)
        await self._daemons.start()
        self._record.note(**_fields(answered(self._record.state, driver)))

    def _keep_built(self, driver: Driver, folder: str) -> None:
        try:
            self._cache.keep_built(driver.sha256, self._record.state.kernel, folder)
        except OSError as error:
            log.warning("the modules are not kept, and are built again next time: %s", error)

    async def _decide(self, driver: Driver) -> Action:
        """What to do for a driver. Raises ToolkitError where that would take one from its users."""
        version, loaded = modules.loaded_version(self._host), self._record.state.loaded
        action = decide(driver, version, loaded, held=False)
        if action != "replace":
            return action
        held = await asyncio.to_thread(read_holding, self._host, self._daemons.pids())
        action = decide(driver, version, loaded, held=bool(held))
        if held and action == "replace":
            raise ToolkitError(failure.in_use(version, held))
        return action

    def _prepare(self, driver: Driver, release: str) -> Build:
        """What modules come from: those built here before, or the headers."""
        if self._host.exists("/sys/module/nouveau"):
            raise ToolkitError(failure.nouveau_loaded())
        built = self._cache.built(driver.sha256, release)
        if os.path.isdir(built):
            folder = modules.prepare_folder(self._places, release)
            shutil.copytree(built, folder, dirs_exist_ok=True)
            return Build("", folder)
        headers = find_headers(self._places, release)
        return Build(headers, modules.prepare_folder(self._places, release))

    async def _take_out_of_service(self, *, unload: bool) -> None:
        self._record.change(serving=None)
        await self._daemons.stop()
        if unload:
            self._interfered = True
            self._record.change(loaded=None)
            await modules.unload(self._host)

    async def _check(self, driver: Driver) -> None:
        found = modules.loaded_version(self._host)
        if found != driver.version:
            raise ToolkitError(failure.wrong_version(driver.version, found))
        self._record.change(loaded=driver)
        await ask_driver()

    async def _fall_back(self, found: Failure) -> Failure:
        """Note a failure, and have a former driver serve. Raises ToolkitError when none can."""
        if found.message != self._told:
            log.error("%s: %s", found.reason, found.message)
            self._told = found.message
        former = fallback(self._record.state)
        if not self._serves() and former and self._cache.has(former.sha256):
            log.warning("going back to driver %s", former.version)
            try:
                await self._bring_up(former)
            except ToolkitError as error:
                log.error("going back failed: %s", error)  # noqa: TRY400 - the reason is in it
            if self._interfered and self._serves():
                found = found._replace(passing=False)  # not again and again
        stage = "Waiting" if found.passing else "Failed"
        self._record.note(stage=stage, reason=found.reason, message=found.message)
        if not self._serves() and not found.passing:
            raise ToolkitError(found)
        return found

    def _serves(self) -> bool:
        """Whether VMs can use a driver of this container now."""
        return self._record.state.serving is not None

    def _say(self, text: str) -> None:
        log.info("%s", text)
        self._record.note(message=text)


def _fields(state: object) -> dict[str, object]:
    """What `answered` changes."""
    return {name: getattr(state, name) for name in ("serving", "last", "previous")}
