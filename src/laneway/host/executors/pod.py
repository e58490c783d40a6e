"""Runs the driver's programs in the pod that holds the driver of this node.

The pod is looked for before every run: labelled as Harvester's driver toolkit labels it, on this
node, Ready and not being deleted. What is remembered of a pod (the driver is installed, a program
is there) is bound to its uid and to the start of its container, so nothing is ever known of a pod
but by asking that very one.

Ready means that the driver is usable only where the container has a readiness probe, and the
toolkit's has none. There the toolkit's own marker is asked for too: its start script takes the
marker away first, and puts it back when the driver is installed and its services run.

Errors tell apart what matters to whoever might try again: with ENOENT, EACCES and EHOSTUNREACH
nothing was started; with EIO and ETIMEDOUT something was, and whether it did its work is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from laneway.core.programs import DRIVER_PROGRAMS
from laneway.host.executors.allowed import check_argv, check_program
from laneway.host.port import CommandMissingError, Completed
from laneway.kube.client import Client
from laneway.kube.errors import (
    ApiError,
    CutOffError,
    ForbiddenError,
    KubeError,
    UnauthorizedError,
    UndecodableError,
)
from laneway.kube.exec import Target, execute
from laneway.kube.pods import PODS, Pod, is_ready

log = logging.getLogger(__name__)

NAMESPACE = "harvester-system"
SELECTOR = "app=nvidia-driver-daemonset"
MARKER = ("test", "-e", "/tmp/ready")  # noqa: S108 - the toolkit's choice, in its own container
_ASK_SECONDS = 10.0
"""For finding the pod, and for each question put to it."""
_NOT_FOUND = re.compile(
    r"executable file .{0,200}not found|(?:stat|exec) .{0,200}no such file or directory",
    re.IGNORECASE | re.DOTALL,
)
"""How runc and crun say that a program is not in the container."""
_RUNTIME_STATUS = {126, 127, 255}
"""Exit statuses with which container runtimes report that they could not start a program."""


class _Driver(NamedTuple):
    """One start of one driver pod's container."""

    target: Target
    uid: str
    started: str
    has_probe: bool


class PodExecutor:
    """`Executor` in the Ready driver pod of one node."""

    def __init__(
        self,
        client: Client,
        node: str,
        *,
        namespace: str = NAMESPACE,
        programs: Collection[str] = DRIVER_PROGRAMS,
    ) -> None:
        self._client = client
        self._node = node
        self._namespace = namespace
        self._programs = programs
        self._known: tuple[_Driver | None, set[str]] = (None, set())
        """What has been found in the container that was asked last."""

    async def has(self, program: str) -> bool:
        check_program(program, self._programs)
        try:
            driver = await self._find()
            found = self._found(driver)
            if program not in found:
                # Both of the driver's programs then only tell how they are used.
                await self._ask(driver, [program, "-h"])
                found.add(program)
        except FileNotFoundError:
            return False
        except OSError as error:
            log.warning("whether %s can be run is not known: %s", program, error.strerror)
            return False
        return True

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        check_argv(argv, self._programs)
        return await self._execute(await self._find(), argv, seconds)

    async def _find(self) -> _Driver:
        """The driver that is usable now. Raises CommandMissingError when there is none."""
        driver = self._choose(await self._pods())
        found = self._found(driver)
        if not driver.has_probe and MARKER[-1] not in found:
            if await self._ask(driver, MARKER) != 0:
                raise _missing(
                    f"the driver is not installed yet in driver pod {driver.target.pod} on node "
                    f"{self._node} ({MARKER[-1]} is missing in it); wait, or look at the pod's log"
                )
            found.add(MARKER[-1])
        return driver

    async def _pods(self) -> list[Pod]:
        pods: list[Pod] = []
        pages = self._client.list(
            PODS,
            self._namespace,
            label_selector=SELECTOR,
            field_selector=f"spec.nodeName={self._node}",
        )
        try:
            async with asyncio.timeout(_ASK_SECONDS), contextlib.aclosing(pages):
                async for page in pages:
                    pods += [pod for item in page.items if (pod := _decode(item)) is not None]
        except TimeoutError:
            raise OSError(
                errno.EHOSTUNREACH, "the API server did not tell in time where the driver pod is"
            ) from None
        except KubeError as error:
            raise _os_error("the driver pod cannot be looked for", error) from error
        return pods

    def _choose(self, pods: list[Pod]) -> _Driver:
        usable = [pod for pod in pods if is_ready(pod) and pod.spec.containers]
        if not usable:
            raise _missing(self._why_none(pods))
        # Two may be Ready while one takes over from the other: the newer one has the newer driver.
        pod = max(usable, key=_age)
        container = pod.spec.containers[0]
        starts = {one.name: one.container_id for one in pod.status.container_statuses}
        return _Driver(
            Target(pod.metadata.namespace, pod.metadata.name, container.name),
            pod.metadata.uid,
            starts.get(container.name, ""),
            container.readiness_probe is not None,
        )

    def _why_none(self, pods: list[Pod]) -> str:
        if not pods:
            return (
                f"node {self._node} has no driver pod (label {SELECTOR} in namespace "
                f"{self._namespace}); enable the add-on nvidia-driver-toolkit, or install the "
                "driver on the node"
            )
        pod = max(pods, key=_age).metadata
        state = "being deleted" if pod.deletion_timestamp else "not Ready"
        return f"driver pod {pod.name} on node {self._node} is {state}; wait, or look at the pod"

    def _found(self, driver: _Driver) -> set[str]:
        """What is known to be in a container: nothing, if it is another than the last one."""
        if self._known[0] != driver:
            self._known = (driver, set())
        return self._known[1]

    async def _ask(self, driver: _Driver, argv: Sequence[str]) -> int:
        """The exit status of something that changes nothing, whatever becomes of it."""
        try:
            return (await self._execute(driver, argv, _ASK_SECONDS)).status
        except OSError as error:
            if error.errno not in {errno.EIO, errno.ETIMEDOUT}:
                raise
            pod = driver.target.pod
            raise OSError(
                errno.EHOSTUNREACH, f"driver pod {pod} does not answer: {error.strerror}"
            ) from error

    async def _execute(self, driver: _Driver, argv: Sequence[str], seconds: float) -> Completed:
        what = f"{argv[0]} in driver pod {driver.target.pod}"
        try:
            ended = await execute(self._client, driver.target, argv, seconds)
        except TimeoutError:
            raise TimeoutError(
                errno.ETIMEDOUT,
                f"{what} did not end within {seconds:g} s; it may go on there",
            ) from None
        except KubeError as error:
            if isinstance(error, ApiError) and _NOT_FOUND.search(error.message):
                raise _missing(f"{argv[0]} is missing in driver pod {driver.target.pod}") from error
            raise _os_error(what, error) from error
        if ended.status in _RUNTIME_STATUS and _NOT_FOUND.search(ended.output):
            raise _missing(f"{argv[0]} is missing in driver pod {driver.target.pod}")
        return ended


def _decode(item: msgspec.Raw) -> Pod | None:
    try:
        return PODS.decode(item)
    except (msgspec.DecodeError, ValueError) as error:
        log.warning("a driver pod cannot be read and is left out: %s", error)
        return None


def _age(pod: Pod) -> tuple[str, str]:
    return (pod.metadata.creation_timestamp, pod.metadata.uid)


def _missing(text: str) -> CommandMissingError:
    return CommandMissingError(errno.ENOENT, text)


def _os_error(what: str, error: KubeError) -> OSError:
    match error:
        case ForbiddenError() | UnauthorizedError():
            hint = "the agent needs list on pods, and get and create on pods/exec"
            return PermissionError(errno.EACCES, f"{what}: {error}; {hint}")
        case CutOffError() | UndecodableError():
            return OSError(errno.EIO, f"{what}: {error}; whether it did its work is unknown")
    return OSError(errno.EHOSTUNREACH, f"{what}: {error}")
