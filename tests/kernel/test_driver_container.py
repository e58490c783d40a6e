"""The driver's programs in a container: with namespaces, a root and a cgroup of its own."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from laneway.core.programs import NVIDIA_SMI
from laneway.host.executors.pod import PodExecutor
from laneway.host.port import CommandMissingError
from support.driver_pods import DriverPods, container_id, pod, served, uid
from support.machines import until

ONLY_HERE = "/usr/sbin/chroot"
MARK = "4711"
"""What nothing else in the guest sleeps for."""
_INSIDE = """
set -e
mount -t tmpfs none "$1"
cd "$1"
mkdir -p usr/bin usr/lib usr/lib64 usr/sbin proc tmp old
ln -s usr/bin usr/lib usr/lib64 usr/sbin .
for part in bin lib lib64; do mount --bind "/usr/$part" "usr/$part"; done
mount -t proc proc proc
echo "$2" > whoami
touch tmp/ready
printf '%s\\n' '#!/bin/sh' "$3" > usr/sbin/nvidia-smi
chmod 755 usr/sbin/nvidia-smi
pivot_root . old
cd /
umount -l old
echo up
exec sleep infinity
"""
_SMI = f"""case $1 in
hang) trap '' TERM; (trap '' TERM; sleep {MARK}) & sleep {MARK} ;;
*) cat /whoami; pwd; cat /proc/$$/comm; cat /proc/self/comm; env ;;
esac"""


V1, V2 = ["cgroup", "-o", "none,name=laneway"], ["cgroup2"]


class Runtime:
    """Starts containers as a container runtime does, below cgroups as the kubelet makes them."""

    def __init__(self, folder: Path, cgroups: Path) -> None:
        self._folder = folder
        self._cgroups = cgroups
        self._running: list[subprocess.Popen[str]] = []

    def start(self, name: str, cgroup: str) -> int:
        """Start a container in a cgroup; the process id of its first process."""
        root = self._folder / name
        root.mkdir()
        procs = self._cgroups / cgroup / "cgroup.procs"
        procs.parent.mkdir(parents=True, exist_ok=True)
        join = f'echo $$ > "{procs}"; exec "$@"'
        spaces = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--fork"]
        inside = ["/bin/sh", "-c", _INSIDE, "sh", str(root), name, _SMI]
        started = subprocess.Popen(
            ["/bin/sh", "-c", join, "sh", *spaces, *inside], stdout=subprocess.PIPE, text=True
        )
        self._running.append(started)
        assert started.stdout is not None
        assert started.stdout.readline() == "up\n"
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text()
        # A runtime's container has no process outside of its namespaces.
        (self._cgroups / "cgroup.procs").write_text(f"{started.pid}\n")
        return int(children)

    def end(self) -> None:
        for one in self._running:
            for child in Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
            one.wait()
            assert one.stdout is not None
            one.stdout.close()


@pytest.fixture
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    cgroups = tmp_path / "cgroups"
    cgroups.mkdir()
    kind = getattr(request, "param", V2)
    subprocess.run(["mount", "-t", *kind, "none", cgroups], check=True)
    found = Runtime(tmp_path, cgroups)
    yield found
    found.end()
    subprocess.run(["umount", "-l", cgroups], check=True)


@pytest.fixture
async def api() -> AsyncIterator[DriverPods]:
    async with served() as api:
        yield api


def systemd(number: int) -> str:
    slices = f"kubepods.slice/kubepods-pod{uid(number).replace('-', '_')}.slice"
    return f"{slices}/cri-containerd-{container_id(number)}.scope"


def cgroupfs(number: int) -> str:
    return f"kubepods/besteffort/pod{uid(number)}/{container_id(number)}"


@pytest.mark.parametrize(
    ("runtime", "spelled"), [(V1, cgroupfs), (V2, systemd)], indirect=["runtime"]
)
async def test_a_program_runs_in_the_container_and_sees_nothing_of_the_node(
    runtime: Runtime,
    api: DriverPods,
    spelled: Callable[[int], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    runtime.start("other", spelled(2))
    runtime.start("driver", spelled(1))
    api.pods = [pod()]
    executor = PodExecutor(api.client, "one")

    assert await executor.has(NVIDIA_SMI)
    status, output = await executor.run([NVIDIA_SMI], 60)

    assert status == 0
    assert output.splitlines()[:4] == ["driver", "/", "nvidia-smi", "cat"]
    environment = output.splitlines()[4:]
    assert {one.partition("=")[0] for one in environment} <= {"PATH", "LC_ALL", "PWD", "SHLVL", "_"}


async def test_a_container_of_another_pod_is_never_entered(
    runtime: Runtime, api: DriverPods
) -> None:
    """Whatever it names the cgroups that it makes below its own."""
    runtime.start("another", cgroupfs(2))
    runtime.start("forged", f"{cgroupfs(3)}/{cgroupfs(1)}")
    runtime.start("nested", f"{cgroupfs(4)}/{systemd(1)}")
    executor = PodExecutor(api.client, "one")

    for found in (pod(), pod(start=2), pod(number=2, start=1)):
        api.pods = [found]
        assert not await executor.has(NVIDIA_SMI)
        with pytest.raises(OSError, match="no process of container") as caught:
            await executor.run([NVIDIA_SMI], 60)
        assert caught.value.errno == errno.EHOSTUNREACH


async def test_what_takes_too_long_is_stopped_with_all_that_it_started(
    runtime: Runtime, api: DriverPods
) -> None:
    runtime.start("driver", cgroupfs(1))
    api.pods = [pod(probe=True)]
    executor = PodExecutor(api.client, "one")

    with pytest.raises(TimeoutError, match="was stopped"):
        await executor.run([NVIDIA_SMI, "hang"], 3)

    assert not sleeping()


async def test_a_container_that_ends_leaves_the_outcome_unknown(
    runtime: Runtime, api: DriverPods
) -> None:
    first = runtime.start("driver", cgroupfs(1))
    api.pods = [pod(probe=True)]
    executor = PodExecutor(api.client, "one")
    running = asyncio.create_task(executor.run([NVIDIA_SMI, "hang"], 60))
    await asyncio.to_thread(until, sleeping)

    os.kill(first, signal.SIGKILL)

    with pytest.raises(OSError, match="is unknown") as caught:
        await running
    assert caught.value.errno == errno.EIO
    with pytest.raises(OSError, match="no process of container"):
        await executor.run([NVIDIA_SMI], 60)


async def test_a_program_that_is_not_in_the_container_is_missing(
    runtime: Runtime, api: DriverPods
) -> None:
    """Though the node has it."""
    assert os.access(ONLY_HERE, os.X_OK)
    runtime.start("driver", cgroupfs(1))
    api.pods = [pod()]
    executor = PodExecutor(api.client, "one", programs={ONLY_HERE})

    with pytest.raises(CommandMissingError, match=f"{ONLY_HERE} is missing in driver pod"):
        await executor.run([ONLY_HERE], 60)


def sleeping() -> bool:
    """Whether anything that a program started goes on."""
    found = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True)
    return f"sleep {MARK}" in found.stdout
