"""The commands that the page of an object shows do what is written above them."""

from __future__ import annotations

import asyncio
import html
import re
import shlex
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.kubectl import KUBECTL
from support.processes import SECONDS, environment
from support.signing_in import Browser
from support.web_pages import Person
from support.web_site import SimulatedSite

pytestmark = pytest.mark.slow  # A process for every command.

A2, DESK = "sim-a2-1", "sim-workstation-1"
VM, CLAIM = "virtualmachines/default/web", f"pcideviceclaims/{DESK}-000004001"
PROGRAMS = {"kubectl": [KUBECTL], "laneway": [sys.executable, "-m", "laneway"]}
OBJECT = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachine",
    "spec": {
        "runStrategy": "Halted",
        "template": {"spec": {"domain": {"devices": {}, "memory": {"guest": "1Gi"}}}},
    },
}


class Desk:
    """The pages and the terminal of a user."""

    def __init__(self, person: Person, kubeconfig: Path) -> None:
        self._person, self._kubeconfig = person, kubeconfig

    async def commands(self, path: str, status: int = 200) -> list[str]:
        """What the page of an object shows to copy."""
        page = await self._person.html(f"/objects/{path}", status)
        return [
            html.unescape(text) for text in re.findall(r'id="command-\d+".*?<code>(.*?)<', page)
        ]

    async def offered(self, path: str, *words: str) -> str:
        """The command of an object that has one of these words, once there is one."""
        async with asyncio.timeout(SECONDS):
            while True:
                commands = await self.commands(path)
                if found := [one for one in commands if any(word in one for word in words)]:
                    (command,) = found
                    return command
                await asyncio.sleep(0.05)

    async def run(self, command: str) -> None:
        program, *arguments = shlex.split(command)
        process = await asyncio.create_subprocess_exec(
            *PROGRAMS[program],
            *arguments,
            env=environment(KUBECONFIG=str(self._kubeconfig)),
            stdout=PIPE,
            stderr=STDOUT,
        )
        said, _ = await process.communicate()
        assert process.returncode == 0, (command, said.decode())


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site") / "data"


@pytest.fixture(scope="module")
def site(data_dir: Path) -> Iterator[SimulatedSite]:
    found = SimulatedSite(data_dir, ["a2", "workstation"])
    try:
        found.make("/apis/kubevirt.io/v1/namespaces/default/virtualmachines", OBJECT, "web")
        yield found
    finally:
        found.end()


@pytest.fixture
async def desk(site: SimulatedSite, data_dir: Path) -> AsyncIterator[Desk]:
    async with Browser(site.address) as browser:
        await browser.sign_in(site.administrator)
        person = Person(browser)
        await person.waits("/networks", lambda text: "eno2" in text)
        yield Desk(person, data_dir / "kubeconfig")


@pytest.mark.parametrize(
    ("path", "on", "off"),
    [
        (f"sriovgpudevices/{A2}-000008000", "laneway gpu enable", "laneway gpu disable"),
        (f"vgpudevices/{A2}-000008004", '"enabled":true', '"enabled":false'),
        (f"sriovnetworkdevices/{DESK}-eno2", '"numVFs":1', '"numVFs":0'),
        (VM, '"runStrategy":"Always"', '"runStrategy":"Halted"'),
    ],
)
async def test_a_command_turns_an_object_on_and_the_next_one_off(
    desk: Desk, path: str, on: str, off: str
) -> None:
    for _ in ("one way", "back"):
        command = await desk.offered(path, on, off)
        await desk.run(command)
        await desk.offered(path, off if on in command else on)


async def test_commands_claim_a_device_and_release_it(desk: Desk) -> None:
    device = f"pcidevices/{DESK}-000004001"
    await desk.run(await desk.offered(device, "laneway claim"))
    await desk.run(await desk.offered(CLAIM, "laneway release"))
    await desk.commands(CLAIM, status=404)


@pytest.mark.parametrize("path", [f"vgpudevices/{A2}-000008004", VM])
async def test_the_commands_that_show_an_object_find_it(desk: Desk, path: str) -> None:
    shown = [one for one in await desk.commands(path) if " patch " not in one]
    assert [one.split()[1] for one in shown] == ["get", "describe", "explain"]
    for command in shown:
        await desk.run(command)
