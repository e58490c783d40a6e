"""The machine driver and a client that calls it as rancher-machine does: built, and run.

Tests build the driver with shorter times to wait. That needs Go and Debian's library for YAML;
without them `build` raises NoDriverError, whose text says what is missing.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from laneway.simcluster.harvester.install import IMAGE, NETWORK

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "tools" / "machine-driver" / "build.sh"
CLIENT_BUILD = ROOT / "tests" / "machine_driver" / "client" / "build.sh"
NAME = "docker-machine-driver-laneway"
QUICK = (
    "machine.settling=5s",
    "machine.patience=2s",
    "machine.addressTimeout=2s",
    "machine.pollInterval=50ms",
)
SECONDS = 90.0
_MISSING = 3
"""The status with which the build ends for want of compiler or library."""


class NoDriverError(Exception):
    """The driver cannot be built here."""


def build(output: Path, *variables: str, script: Path = BUILD, **environment: str) -> Path:
    """Build the driver to a file, or what else a script builds."""
    done = subprocess.run(
        [script, output, *variables],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    if done.returncode == _MISSING:
        raise NoDriverError(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return output


class Done(msgspec.Struct, frozen=True):
    """What came of one command of the client."""

    error: str
    value: Any
    calls: list[str] | None
    out: list[str] | None
    status: str
    """How the driver's process ended; empty: well."""

    @property
    def text(self) -> str:
        return "\n".join(self.out or ())


class Programs(NamedTuple):
    """What was built."""

    driver: Path
    client: Path


class Machines:
    """Machines of one rancher-machine: its store is a folder."""

    def __init__(self, programs: Programs, store: Path, options: Mapping[str, Any]) -> None:
        self.programs = programs
        self.store = store
        self.options = options
        """Of every machine that is created."""
        self.environment: dict[str, str] = {}

    async def run(
        self, command: str, *arguments: str, error: str | None = "", **options: Any
    ) -> Done:
        """A command, which ends with exactly this error, with any (None), or with none."""
        given = {f"laneway-{name.replace('_', '-')}": one for name, one in options.items()}
        process = await self.start(command, *arguments)
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(json.dumps({**self.options, **given}).encode())
        assert process.returncode == 0, err.decode()
        done = msgspec.json.decode(out, type=Done)
        if error is not None:
            assert done.error == error, done
        else:
            assert done.error, done
        return done

    async def start(self, command: str, *arguments: str) -> asyncio.subprocess.Process:
        """A command that is still at it; the options are for the caller to send."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "LANEWAY"))}
        program = [self.programs.client, self.programs.driver, self.store, command, *arguments]
        return await asyncio.create_subprocess_exec(
            *program, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=kept | self.environment
        )


def plain_options(kubeconfig: str) -> dict[str, object]:
    """Those that no machine can do without."""
    return {
        "laneway-kubeconfig-content": kubeconfig,
        "laneway-image-name": f"default/{IMAGE}",
        "laneway-disk-size": 20,
        "laneway-network-name": f"default/{NETWORK}",
        "laneway-memory-size": 1,
    }


def by_hand(driver: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The driver as a person starts it."""
    return subprocess.run(
        [driver, *arguments], capture_output=True, text=True, check=False, stdin=DEVNULL
    )


def vgpus(*resources: str, **more: Any) -> str:
    """The text of vgpu-info, as Rancher's page writes it."""
    entries = [{"name": "provisioned", "deviceName": one, **more} for one in resources]
    return json.dumps({"vGPURequests": entries})


def host_devices(resources: Sequence[str]) -> str:
    """The text of host-device-info."""
    return json.dumps({"hostDevices": [{"deviceName": one} for one in resources]})
