"""Runs the driver's programs in the container of this node that holds the driver.

Which container that is tells the API; `entering` then runs a program in it without the API. The pod
is looked for before every run: labelled as Harvester's driver toolkit labels it, made by a
DaemonSet of such pods, on this node, Ready and not being deleted. What is remembered of a pod (the
driver is installed, a program is there) is bound to its uid and to the start of its container, so
nothing is ever known of a pod but by asking that very one.

A program runs as root of the node, from files that the pod brings. A user who may make pods in the
namespace could label one of their own, and name any owner; so the container must be privileged,
which it takes as many rights to make as can be gained by it.

Ready means that the driver is usable only where the container has a readiness probe, and the
toolkit's has none. There the toolkit's own marker is checked too: its start script takes the
marker away first, and puts it back when the driver is installed and its services run.

Errors distinguish what matters to a caller that might try again: with ENOENT, EACCES and
EHOSTUNREACH nothing was started; with EIO and ETIMEDOUT something was, and whether it did its work
is unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from laneway.api import OwnerReference
from laneway.core.kernel.cgroup import Container, container_id
from laneway.core.programs import DRIVER_PROGRAMS
from laneway.host.executors.allowed import check_argv, check_program
from laneway.host.executors.entering import run_inside
from laneway.host.port import CommandMissingError, Completed
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, KubeError, NotFoundError, UnauthorizedError
from laneway.kube.pods import DAEMON_SETS, PODS, Pod, is_ready

log = logging.getLogger(__name__)

NAMESPACE = "harvester-system"
LABEL, VALUE = "app", "nvidia-driver-daemonset"
SELECTOR = f"{LABEL}={VALUE}"
MARKER = ("test", "-e", "/tmp/ready")  # noqa: S108 - the toolkit's choice, in its own container
_ASK_SECONDS = 10.0
"""For finding the pod, and for each question put to it."""
_SILENT = "the API server did not report the driver pod in time"


class _Driver(NamedTuple):
    """One start of one driver pod's container."""

    pod: str
    container: Container
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
        proc: str = "/proc",
    ) -> None:
        self._client = client
        self._node = node
        self._namespace = namespace
        self._programs = programs
        self._proc = proc
        self._owner = ""
        """The uid of the DaemonSet that owned the last pod."""
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
            log.warning("cannot determine whether %s can be run: %s", program, error.strerror)
            return False
        return True

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        check_argv(argv, self._programs)
        return await self._execute(await self._find(), argv, seconds)

    async def _find(self) -> _Driver:
        """The driver that is usable now. Raises CommandMissingError when there is none."""
        driver = await self._choose(await self._pods())
        found = self._found(driver)
        if not driver.has_probe and MARKER[-1] not in found:
            if await self._ask(driver, MARKER) != 0:
                raise _missing(
                    f"the driver is not installed yet in driver pod {driver.pod} on node "
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
            raise OSError(errno.EHOSTUNREACH, _SILENT) from None
        except KubeError as error:
            what = "the driver pods cannot be listed"
            raise _os_error(what, error, "list on pods") from error
        return pods

    async def _choose(self, pods: list[Pod]) -> _Driver:
        usable = [pod for pod in pods if is_ready(pod) and pod.spec.containers]
        if not usable:
            raise _missing(self._why_none(pods))
        # Two may be Ready while one takes over from the other: the newer one has the newer driver.
        refused = []
        for pod in sorted(usable, key=_age, reverse=True):
            try:
                return await self._trusted(pod)
            except PermissionError as error:
                refused.append(error)
        raise refused[0]

    async def _trusted(self, pod: Pod) -> _Driver:
        """The driver in a pod. Raises PermissionError for one that only looks like the driver's."""
        name, container = pod.metadata.name, pod.spec.containers[0]
        if not container.security_context.privileged:
            raise PermissionError(
                errno.EACCES,
                f"pod {name} on node {self._node} is labelled {SELECTOR}, but its container "
                f"{container.name} is not privileged, so it cannot hold a driver and is not used",
            )
        await self._check_owner(pod)
        starts = {one.name: one.container_id for one in pod.status.container_statuses}
        found = container_id(starts.get(container.name, ""))
        if not found:
            raise _missing(
                f"container {container.name} of driver pod {name} on node {self._node} has no "
                "container ID yet; wait, or look at the pod"
            )
        has_probe = container.readiness_probe is not None
        return _Driver(name, Container(pod.metadata.uid, found), has_probe)

    async def _check_owner(self, pod: Pod) -> None:
        """Raises OSError unless a DaemonSet of such pods owns this one."""
        meta = pod.metadata
        owner = next((one for one in meta.owner_references if one.controller), None)
        if owner is not None and owner.uid == self._owner:
            return
        if owner is None or not await self._makes_drivers(owner, meta.namespace):
            raise PermissionError(
                errno.EACCES,
                f"pod {meta.name} on node {self._node} is labelled {SELECTOR}, but no DaemonSet of "
                "such pods owns it, so it is not used",
            )
        self._owner = owner.uid

    async def _makes_drivers(self, owner: OwnerReference, namespace: str) -> bool:
        if owner.kind != DAEMON_SETS.kind or owner.api_version != DAEMON_SETS.api_version:
            return False
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                found = await self._client.get(DAEMON_SETS, owner.name, namespace)
        except NotFoundError:
            return False
        except TimeoutError:
            raise OSError(errno.EHOSTUNREACH, _SILENT) from None
        except KubeError as error:
            what = f"DaemonSet {owner.name} of the driver pod cannot be read"
            raise _os_error(what, error, "get on daemonsets.apps") from error
        labels = found.spec.template.metadata.labels
        return found.metadata.uid == owner.uid and labels.get(LABEL) == VALUE

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
            pod = driver.pod
            raise OSError(
                errno.EHOSTUNREACH, f"driver pod {pod} does not answer: {error.strerror}"
            ) from error

    async def _execute(self, driver: _Driver, argv: Sequence[str], seconds: float) -> Completed:
        try:
            return await run_inside(driver.container, argv, seconds, proc=self._proc)
        except CommandMissingError:
            raise _missing(f"{argv[0]} is missing in driver pod {driver.pod}") from None
        except TimeoutError as error:
            raise TimeoutError(
                errno.ETIMEDOUT, f"in driver pod {driver.pod}: {error.strerror}"
            ) from None
        except OSError as error:
            raise OSError(error.errno, f"in driver pod {driver.pod}: {error.strerror}") from error


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


def _os_error(what: str, error: KubeError, right: str) -> OSError:
    if isinstance(error, ForbiddenError | UnauthorizedError):
        return PermissionError(errno.EACCES, f"{what}: {error}; the agent needs {right}")
    return OSError(errno.EHOSTUNREACH, f"{what}: {error}")
