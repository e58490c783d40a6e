"""Guests of the kernel rig that stay up: nodes with a real kernel and the real `laneway agent`.

A test on the host tells them by a serial line what to do. The agent in a guest reaches the API
server of the host through QEMU's network. What a node keeps on its disk, the agent's state, is in a
folder of the host; all else is in the guest's memory and gone when it is switched off.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from support.machines import HOLD

SECONDS = 300.0
"""Far longer than anything takes that happens at all, also on a busy host."""

ROOT = Path(__file__).parents[2]
PUBLISHED = "are published"
"""What an agent says once it has published all that it found."""
KUBELET = "/run/kubelet"
"""The folder of a guest's kubelet."""
HOST = "10.0.2.2"
"""What a guest calls the loopback address of the host."""


def kubeconfig_in_guest(text: str) -> str:
    """The kubeconfig of a server on this host's loopback address, for a guest."""
    config = yaml.safe_load(text)
    for cluster in config["clusters"]:
        here = cluster["cluster"]
        here["server"] = here["server"].replace("127.0.0.1", HOST)
        # what its certificate is for
        here["tls-server-name"] = "localhost"
    return yaml.safe_dump(config)


class Guest:
    """One node. `boot` it, `run` commands in it, `start_agent`; `switch_off` is a power cut."""

    def __init__(
        self, name: str, cache: Path, framework: str, folder: Path, kubeconfig: Path
    ) -> None:
        self.name = name
        self.framework = framework
        self.log = folder / "console.log"
        self._cache = cache
        self._disk = folder
        self._kubeconfig = kubeconfig
        self._socket = folder / "control"
        self._machine: asyncio.subprocess.Process | None = None
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def boot(self) -> None:
        """Switch it on, and wait until it takes commands and has a kubelet."""
        called: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.get_running_loop().create_future()
        )
        server = await asyncio.start_unix_server(
            lambda reader, writer: called.set_result((reader, writer)), self._socket
        )
        settings = {
            "GPUS": "a2,gtx1080",
            "MODE": self.framework,
            "NODE": self.name,
            "NET": "on",
            "CONTROL": str(self._socket),
            "MEM": "768",
            "OUT": str(self._disk),
            "TIMEOUT": "900",
        }
        with self.log.open("ab") as log:
            self._machine = await asyncio.create_subprocess_exec(
                ROOT / "rig/boot.sh",
                self._cache,
                'source "$RIG/control.sh"',
                cwd=ROOT,
                env={**os.environ, **settings},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        died = asyncio.create_task(self._machine.wait())
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({called, died}, return_when=asyncio.FIRST_COMPLETED)
            assert called.done(), self.log.read_text()
            self._line = called.result()
            assert await self._line[0].readline() == b"ready\n", self.log.read_text()
        died.cancel()
        server.close()
        self._socket.unlink()
        await self._start_kubelet()

    async def run(self, script: str) -> str:
        """Run a bash script in it; what it printed. It must succeed."""
        assert self._line is not None
        reader, writer = self._line
        async with self._turn, asyncio.timeout(SECONDS):
            writer.write(base64.b64encode(script.encode()) + b"\n")
            status, _, printed = (await reader.readline()).decode().strip().partition(" ")
        said = base64.b64decode(printed).decode()
        assert status == "0", f"{self.name}: {script}: status {status}: {said}"
        return said.strip()

    async def write(self, path: str, data: str) -> None:
        """Write an attribute, as an administrator on the node does."""
        await self.run(f"printf %s {shlex.quote(data)} >{shlex.quote(path)}")

    async def until(self, condition: str) -> None:
        """Wait in the guest until a bash condition holds: no event tells the host."""
        await self.run(f"until {condition}; do busybox sleep 0.2; done")

    async def start_agent(self) -> None:
        """Start the agent, and wait until it has published the node's devices."""
        kubeconfig = kubeconfig_in_guest(self._kubeconfig.read_text())
        (self._disk / "kubeconfig").write_text(kubeconfig)
        lives = self.agent_log.count(PUBLISHED)
        await self.run(
            # No public authorities: aiohttp reads them at its start, which takes seconds here.
            f"SSL_CERT_FILE=/dev/null {sys.executable} -m laneway agent --node {self.name} "
            f"--kubeconfig $RIG_OUT/kubeconfig --state-dir $RIG_OUT/state --kubelet-dir {KUBELET} "
            ">>$RIG_OUT/agent.log 2>&1 & echo $! >/run/agent.pid"
        )
        async with asyncio.timeout(SECONDS):
            # A question from within would take time from the agent.
            while self.agent_log.count(PUBLISHED) == lives:  # noqa: ASYNC110 - a file has no events
                await asyncio.sleep(0.1)

    async def hold(self, device: str) -> str:
        """Have a process open a mediated device, or a PCI device, by VFIO; its process id.

        It releases it when it is killed.
        """
        return await self.run(
            f"home=$(echo /sys/bus/*/devices/{device})\n"
            "group=/dev/vfio/$(basename $(readlink $home/iommu_group))\n"
            f"sleep infinity 2>/dev/null | {sys.executable} -I -S -c {shlex.quote(HOLD)} "
            f"$group {device} >/run/held 2>&1 &\n"
            "until [[ -s /run/held ]]; do busybox sleep 0.1; done\n"
            "[[ $(</run/held) == 0 ]] && echo $! || cat /run/held"
        )

    async def _start_kubelet(self) -> None:
        await self.run(
            f"mkdir -p {KUBELET}\n"
            f"{sys.executable} {ROOT}/tests/support/guest_kubelet.py {KUBELET} "
            ">>$RIG_OUT/kubelet.log 2>&1 &\n"
            f"until [[ -p {KUBELET}/told ]]; do busybox sleep 0.2; done"
        )

    async def kubelet(self, **asked: Any) -> Any:
        """Ask the kubelet: see `guest_kubelet`."""
        line = shlex.quote(json.dumps(asked))
        return json.loads(
            await self.run(f"echo {line} >{KUBELET}/ask; read -r told <{KUBELET}/told; echo $told")
        )

    async def allocatable(self, resource: str, count: int) -> None:
        """Wait until the kubelet has so many devices to give."""
        asked = shlex.quote(json.dumps({"allocatable": resource}))
        await self.until(
            f"echo {asked} >{KUBELET}/ask && read -r told <{KUBELET}/told && [[ $told == {count} ]]"
        )

    async def start_machine(self, name: str, devices: Sequence[str], model: str) -> None:
        """Start a QEMU whose CPU stands still, and wait until VFIO has attached the devices.

        `devices` in QEMU's words, `model` the ids of one of them.
        """
        chosen = " ".join(
            f"-device vfio-pci,{device},addr=0{number}.0"
            for number, device in enumerate(devices, start=3)
        )
        # Emulated in an emulated machine, QEMU itself crashes now and then while it starts.
        await self.run(
            f"mkfifo /run/{name}.in; exec 8<>/run/{name}.in\n"
            "for attempt in 1 2 3; do\n"
            "  qemu-system-x86_64 -S -accel tcg,tb-size=16 -cpu qemu64 -M q35 -m 64 -nodefaults "
            f"-no-user-config -display none -monitor stdio {chosen} "
            f"<&8 >/run/{name}.out 2>&1 & echo $! >/run/{name}.pid\n"
            "  echo info pci >&8\n"
            f"  until grep -q 'PCI device {model}' /run/{name}.out; do busybox sleep 0.2\n"
            "    kill -0 $! 2>/dev/null && continue\n"
            f"    wait $!; [[ $? == {128 + signal.SIGSEGV} ]] && continue 2\n"
            f"    cat /run/{name}.out; exit 1\n"
            "  done\n"
            "  exit 0\n"
            "done; exit 1"
        )

    async def machine_runs(self, name: str) -> bool:
        """Whether it still does."""
        pid = f"$(</run/{name}.pid)"
        return await self.run(f"kill -0 {pid} 2>/dev/null && echo runs || true") == "runs"

    async def end_machine(self, name: str) -> None:
        """Have it stop by itself, and wait for that."""
        await self.run(
            f"echo quit >/run/{name}.in; pid=$(</run/{name}.pid)\n"
            "while [[ -e /proc/$pid ]]; do busybox sleep 0.1; done; rm /run/" + name + ".in"
        )

    async def kill_agent(self) -> None:
        """End it at once, wherever it is."""
        await self.run(
            "kill -KILL $(</run/agent.pid); while [[ -e /proc/$(</run/agent.pid) ]]; do "
            "busybox sleep 0.1; done"
        )

    @property
    def agent_log(self) -> str:
        """What the agent said, in all its lives."""
        path = self._disk / "agent.log"
        return path.read_text() if path.exists() else ""

    async def switch_off(self) -> None:
        """Pull the plug."""
        if self._line is not None:
            self._line[1].close()
            with contextlib.suppress(OSError):
                await self._line[1].wait_closed()
            self._line = None
        if self._machine is not None:
            self._machine.send_signal(signal.SIGTERM)
            await self._machine.wait()
            self._machine = None


class Objects:
    """What a test reads and writes on the API server."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def get(self, cls: type[Any], name: str) -> Any:
        """An object, or None."""
        try:
            return await self.client.get(served(cls), name)
        except NotFoundError:
            return None

    async def patch(self, cls: type[Any], name: str, spec: dict[str, Any]) -> None:
        """Change what is desired."""
        await self.client.patch(served(cls), name, {"spec": spec})

    async def until(self, cls: type[Any], name: str, holds: Callable[[Any], bool]) -> Any:
        """Wait, by watching, until an object is as expected; None stands for no object."""
        resource = served(cls)
        selected = {"field_selector": f"metadata.name={name}"}
        obj = None
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    page = [page async for page in self.client.list(resource, **selected)][-1]
                    obj = resource.decode(page.items[0]) if page.items else None
                    if holds(obj):
                        return obj
                    changes = self.client.watch(
                        resource,
                        resource_version=page.resource_version,
                        server_seconds=30,
                        **selected,
                    )
                    async with contextlib.aclosing(changes):
                        await anext(changes, None)
        except TimeoutError:
            raise AssertionError(f"{name} never became as expected; it is {obj}") from None
