"""The vCenter simulator of `tests/vcenter_sim`: built when needed, started on free loopback ports.

It needs Go and Debian's govmomi library; without them `program` raises `NoSimulatorError`, whose
text says what is missing. What a `Simulator` is to do wrong, and what it reports of its state,
goes through a control endpoint of its own, which nothing that goes wrong on purpose concerns.
"""

from __future__ import annotations

import asyncio
import functools
import json
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
SAMPLE: dict[str, Any] = json.loads((ROOT / "tests" / "vcenter_sim" / "sample.json").read_bytes())
"""A small inventory: two T4 for whole machines, one shared; two H100 with a network card, which are
a vendor device group; two templates."""
SECONDS = 60.0
_MISSING = 3
"""The status with which the build ends for want of compiler or library."""

Gpus = Mapping[str, Sequence[Mapping[str, Any]]]
"""GPUs by the name of their host, as `tests/vcenter_sim/README.md` describes them."""


class NoSimulatorError(Exception):
    """The simulator cannot be built here."""


@functools.cache
def program() -> str:
    """Path of the simulator, built if need be: a minute or two the first time."""
    done = subprocess.run(
        [ROOT / "tools" / "vcenter-sim" / "build.sh"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == _MISSING:
        raise NoSimulatorError(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Simulator:
    """A vCenter of one's own, from `start` (or `with`) until `stop`.

    Names of its model: datacenter DC0; clusters DC0_C0 …, of hosts DC0_C0_H0 …; a host outside of
    clusters DC0_H0; per cluster VMs DC0_C0_RP0_VM0 …, which are on; templates in /DC0/vm.
    """

    def __init__(
        self,
        inventory: Gpus | None = None,
        *,
        clusters: int = 1,
        hosts: int = 3,
        vms: int = 2,
        standalone: int = 1,
        drs: bool = True,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        templates: Mapping[str, Mapping[str, Any]] | None = None,
        device_groups: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        api_version: str = "8.0.3.0",
        hardware_version: str = "vmx-17",
        user: str = "user",
        password: str = "pass",
        port: int = 0,
    ) -> None:
        """`settings` are of clusters, by name: hostGroups, vmGroups, mustRun, drs.

        The groups of the sample are there where its hosts are.
        """
        if device_groups is None and inventory is None:
            device_groups = SAMPLE["deviceGroups"]
        named = {f"DC0_C{i}": {"drs": drs} for i in range(clusters)}
        for name, more in (settings or {}).items():
            named[name] = {**named.get(name, {}), **more}
        self._file = {
            "hosts": SAMPLE["hosts"] if inventory is None else inventory,
            "templates": SAMPLE["templates"] if templates is None else templates,
            "deviceGroups": device_groups or {},
            "clusters": named,
        }
        self._arguments = [
            *("-cluster", str(clusters), "-host", str(hosts), "-vm", str(vms)),
            *("-standalone", str(standalone), "-l", f"127.0.0.1:{port}"),
            *("-api-version", api_version, "-hwversion", hardware_version),
            *("-user", user, "-password", password),
        ]
        self._process: subprocess.Popen[str] | None = None
        self.user = user
        self.password = password
        self.host = "127.0.0.1"
        self.port = port
        self.url = ""
        self.thumbprint = ""
        """SHA-1 of its certificate, as vSphere's users write it: `AB:CD:…`."""
        self.thumbprint_sha256 = ""
        self.ca = ""
        """PEM of the authority that its certificate is of."""
        self._control = ""

    @property
    def server(self) -> str:
        """As users write it: `127.0.0.1:38341`."""
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        """Of its process, from its start to its end."""
        assert self._process is not None
        return self._process.pid

    # ---- life ----------------------------------------------------------------

    def start(self) -> Self:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(self._file, file)
            file.flush()
            self._process = subprocess.Popen(
                [program(), *self._arguments, "-inventory", file.name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert self._process.stdout is not None
            first = self._process.stdout.readline()  # printed when the file was read
        assert first, f"the simulator ended with status {self._process.wait(SECONDS)}"
        about = json.loads(first)
        self.url, self._control = about["url"], about["control"]
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])
        self.thumbprint, self.thumbprint_sha256 = about["thumbprint"], about["thumbprintSha256"]
        self.ca = about["ca"]
        return self

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)  # a clean end removes its temporary folders
        with self._process:
            self._process.wait(SECONDS)
        self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)

    # ---- the truth -----------------------------------------------------------

    def _call(self, path: str, **body: Any) -> Any:
        """GET without a body, else POST. Answers within milliseconds, also to an event loop."""
        data = None if path in {"state", "about"} else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(f"{self._control}/{path}", data, SECONDS) as response:
                answer = response.read()
        except urllib.error.HTTPError as error:
            with error:
                raise ValueError(error.read().decode().strip()) from None
        return json.loads(answer) if answer else None

    def state(self) -> dict[str, Any]:
        """All of it: `vms`, `gpus` with their users, `hosts`, `tasks`, counts of `requests`."""
        state: dict[str, Any] = self._call("state")
        return state

    def vms(self) -> dict[str, dict[str, Any]]:
        """VMs by name: ref, instanceUuid, on, host, version, memoryLocked, ip, extra, devices."""
        return {vm["name"]: vm for vm in self.state()["vms"]}

    def users(self) -> dict[tuple[str, str], dict[str, list[str]]]:
        """Who has which GPU: VM to profiles ("" = all of it), by host and PCI address."""
        return {(g["host"], g["id"]): g["users"] for g in self.state()["gpus"] if g["users"]}

    def tasks(self, method: str = "") -> list[dict[str, Any]]:
        """Tasks in the order of their beginning: ref, method, vm, state, fault."""
        return [t for t in self.state()["tasks"] if method in {"", t["method"]}]

    def requests(self, method: str) -> int:
        """How often a method was called."""
        return int(self.state()["requests"].get(method, 0))

    # ---- what goes slowly ----------------------------------------------------

    def hold(
        self, method: str = "*", vm: str = "*", *, after: bool = False, queued: bool = False
    ) -> None:
        """Tasks of the method stay running until released; names are patterns.

        `after`: carried out at once, only the end is not reported. `queued`: they do not even
        begin.
        """
        self._call("pace", method=method, vm=vm, hold=True, after=after, queued=queued)

    def delay(self, milliseconds: int, method: str = "*", vm: str = "*") -> None:
        """Tasks are queued for half of the time, and run for the other half."""
        self._call("pace", method=method, vm=vm, ms=milliseconds)

    def release(self, method: str = "*", vm: str = "*") -> None:
        """No hold or delay any more; what is held goes on."""
        self._call("release", method=method, vm=vm)

    # ---- what goes wrong -----------------------------------------------------

    def fail(
        self,
        method: str,
        fault: str,
        text: str = "",
        *,
        vm: str = "",
        host: str = "",
        times: int = 1,
        at_once: bool = False,
        **details: Any,
    ) -> None:
        """The next tasks of the method fail; `at_once`: vCenter does not even make a task.

        `host`: only when this host was chosen, for CloneVM_Task, RelocateVM_Task and
        PowerOnVM_Task. `times` below zero: for ever. `details` are properties of the fault, as
        JSON.
        """
        self._mischief(
            "fault" if at_once else "task",
            method,
            vm,
            times,
            fault=fault,
            text=text,
            host=host,
            details=details,
        )

    def drop(self, method: str, *, vm: str = "", after: bool = False, times: int = 1) -> None:
        """The connection breaks before the next request is carried out, or after it was."""
        self._mischief("dropAfter" if after else "drop", method, vm, times)

    def nonsense(self, method: str, text: str, *, status: int = 200, times: int = 1) -> None:
        """The next requests are answered with this text instead of SOAP."""
        self._mischief("nonsense", method, "", times, text=text, status=status)

    def _mischief(self, kind: str, method: str, vm: str, times: int, **more: Any) -> None:
        self._call("mischief", **{"as": kind}, method=method, vm=vm, times=times, **more)

    def calm(self) -> None:
        """Nothing goes wrong on purpose any more."""
        self._call("calm")

    def expire_sessions(self) -> None:
        """All sessions end: NotAuthenticated."""
        self._call("expire")

    def cut_connections(self) -> None:
        """All that are open, also those that wait for updates."""
        self._call("cut")

    def forget_tasks(self) -> None:
        """Tasks that are done are unknown from now on, as they are to vCenter after a while."""
        self._call("forget")

    # ---- what others do to it ------------------------------------------------

    def detach(self, vm: str, key: int = 0) -> None:
        """A passthrough device goes, also of a VM that is on; 0: the first."""
        self._call("detach", vm=vm, key=key)

    def change_host(
        self,
        name: str,
        *,
        connected: bool | None = None,
        maintenance: bool | None = None,
        default_graphics: str = "",
    ) -> None:
        self._call(
            "host",
            name=name,
            connected=connected,
            maintenance=maintenance,
            defaultGraphicsType=default_graphics,
        )

    def change_device(
        self, host: str, device: str, *, label: str | None = None, mode: str = ""
    ) -> None:
        """Label or mode (`passthrough`, `sharedDirect`, `direct`) of a device, by PCI address."""
        self._call("host", name=host, device=device, label=label, mode=mode)

    def change_cluster(self, name: str, *, drs: bool) -> None:
        self._call("cluster", name=name, drs=drs)

    def unreadable(self, vm: str, unreadable: bool = True) -> None:
        """The files of a VM, which goes on, cannot be read: no configuration is reported."""
        self._call("unreadable", vm=vm, unreadable=unreadable)

    def guests(
        self,
        *,
        addresses: bool = True,
        delay: int = 0,
        shutdown: bool = True,
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Whether VMs get an address, how many ms after power-on; whether they obey a shutdown.

        `others`: what they report in addition as soon as they are on, by the MAC address of an
        interface of the guest; an empty one is that of the VM's own card. Guests that are on and
        have no address yet tell what is said here, too.
        """
        reported = [{"mac": mac, "addresses": [*those]} for mac, those in (others or {}).items()]
        self._call("guests", addresses=addresses, ms=delay, shutdown=shutdown, others=reported)
