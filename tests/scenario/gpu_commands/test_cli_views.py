"""What commands show live, in which forms, and the names that they suggest."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from laneway.api import SRIOVGPUDevice
from support.commands import GPU, Q4, TITLE, VGPU, Laneway, ended, started

NAME = f"sriovgpudevice.devices.harvesterhci.io/{GPU}"
CARRIES = {Q4: 1}
DOCUMENTED = (Path(__file__).parents[3] / "docs/reference/output.md").read_text()


async def carries(cluster: Any) -> None:
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.until(SRIOVGPUDevice, GPU, lambda gpu: gpu.status.configured == CARRIES)


async def test_a_gpu_is_shown_in_every_form_and_drawn(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await carries(cluster)

    document = json.loads((await laneway("gpus", "-o", "json")).out)
    [gpu] = document["gpus"]
    assert (gpu["memoryMiB"], gpu["allocatedMiB"], gpu["fits"]["A2-4Q"]) == (16384, 4096, 3)
    free = gpu["freeMiB"], gpu["largestFit"], gpu["fragmentation"]
    assert (free[0], free[1][:4], free[2]) == (12288, "A2-4", 0.6667)
    assert [(vgpu["profile"], vgpu["holder"]) for vgpu in gpu["vgpus"]] == [("A2-4Q", None)]
    assert not [field for field in (*gpu, *gpu["vgpus"][0]) if f"`{field}" not in DOCUMENTED]
    assert yaml.safe_load((await laneway("gpus", "-oyaml")).out) == document
    assert (await laneway("gpus", "-o", "name")).lines == [NAME]
    assert (await laneway("gpus", "-o", "wide")).lines[0].endswith("OWNER        NAME")

    assert (gpu["migrationGroup"], gpu["migrationGroupLacks"]) == (None, ["ECC mode"])
    assert "unknown: ECC mode" in (await laneway("gpus", "-o", "wide")).out
    assert "unknown: ECC mode" in (await laneway("explain", TITLE)).out
    assert " 67 % " in (await laneway("gpus", "-o", "wide")).out

    one = await laneway("gpus", TITLE)
    assert " 1 A2-4Q " in one.out
    assert "Memory: 4 GiB of 16 GiB allocated" in one.lines
    assert one.out.split("Memory:")[1].split()[0] in (await laneway("explain", TITLE)).out
    assert "A2-4A of 12 GiB free, fragmentation 67 %" in (await laneway("explain", TITLE)).out


@pytest.mark.slow
async def test_watching_gives_a_document_for_every_change_and_ends_cleanly(
    cluster: Any, a2: Any, kubeconfig: str
) -> None:
    process = await started("gpus", "-w", "-o", "json", kubeconfig=kubeconfig)
    assert process.stdout is not None
    seen = ""
    async with asyncio.timeout(60):
        seen += (await process.stdout.readuntil(b"\n}\n")).decode()
        await carries(cluster)
        # Before that, a document may tell that the profile is desired.
        while '"profile": "A2-4Q"' not in seen.rpartition("\n{\n")[2]:
            seen += (await process.stdout.readuntil(b"\n}\n")).decode()
    process.send_signal(signal.SIGINT)

    done = await ended(process)

    assert (done.status, done.err) == (130, "")
    documents = [json.loads("{" + one) for one in ("\n" + seen).split("\n{")[1:]]
    assert documents[0]["gpus"][0]["vgpus"] == []
    assert documents[-1]["gpus"][0]["vgpus"][0]["profile"] == "A2-4Q"
    assert len({json.dumps(one) for one in documents}) == len(documents)


class Terminal:
    """A command at a terminal of 24 lines."""

    def __init__(self, *arguments: str, columns: int = 80, **variables: str) -> None:
        self.pid, self._file = pty.fork()
        if not self.pid:
            kept = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
            environment = kept | {"TERM": "xterm", "HOME": "/proc/none"} | variables
            os.execve(sys.executable, [sys.executable, "-m", "laneway", *arguments], environment)
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.said = ""

    def until(self, text: str) -> None:
        while text not in self.said:
            self.said += os.read(self._file, 65536).decode()

    def end(self, number: int) -> int:
        os.kill(self.pid, number)
        return self.rest()

    def rest(self) -> int:
        """Everything to the end; gives the exit status."""
        try:
            while part := os.read(self._file, 65536):
                self.said += part.decode()
        except OSError:
            pass  # as Linux says that the other side is closed
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


async def at_terminal(work: Callable[[], Any]) -> Any:
    async with asyncio.timeout(60):
        return await asyncio.to_thread(work)


async def test_top_is_redrawn_at_a_terminal_and_leaves_it_as_it_was(
    cluster: Any, a2: Any, kubeconfig: str
) -> None:
    top = Terminal("top", KUBECONFIG=kubeconfig)
    await at_terminal(lambda: top.until("0 vGPUs"))
    await carries(cluster)
    await at_terminal(lambda: top.until("1 vGPU, 0 held"))

    assert await at_terminal(lambda: top.end(signal.SIGINT)) == 130

    assert "\x1b[?1049h" in top.said
    assert top.said.rindex("\x1b[?1049l") > top.said.rindex("1 vGPU, 0 held")
    assert "A2-4Q" in top.said
    assert "4 GiB of 16 GiB" in top.said
    assert "Traceback" not in top.said


@pytest.mark.slow
async def test_top_once_tells_what_is_not_known_by_a_dash(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await carries(cluster)
    done = await laneway("top", "--once")
    [vgpu] = [line.split() for line in done.lines if "A2-4Q" in line]
    assert vgpu == ["0000:08:00.4", "A2-4Q", "4", "GiB", "-", "-"]
    assert (await laneway("top", "--once", "-o", "name")).lines == [NAME]
    assert "Did you mean node1?" in (await laneway("top", "--node", "node2", status=1)).err


@pytest.mark.parametrize("plain", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
async def test_a_terminal_gets_colours_unless_they_are_off(plain: dict[str, str]) -> None:
    doctor = Terminal("doctor", "node", "--simulate", "a2", columns=60, **plain)
    await at_terminal(doctor.rest)
    assert ("\x1b[" not in doctor.said) is bool(plain)
    assert max(len(line) for line in doctor.said.splitlines() if "\x1b" not in line) <= 60


async def test_a_device_is_claimed_and_released_by_its_place(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    nic = "node1/04:00.1"
    tried = await laneway("claim", nic, "--dry-run")
    assert tried.lines == ["Would create PCIDeviceClaim node1-000004001 for node1/0000:04:00.1."]
    assert "is not claimed" in (await laneway("release", nic, status=1)).err

    claimed = await laneway("claim", nic, "-o", "json")
    claim = json.loads(claimed.out)
    assert claim["spec"] == {"address": "0000:04:00.1", "nodeName": "node1"}
    assert claim["status"]["passthroughEnabled"]
    assert (await laneway("release", nic, "--dry-run")).lines == [
        "Would delete PCIDeviceClaim node1-000004001 of node1/0000:04:00.1."
    ]
    assert (await laneway("release", nic)).lines == ["Released node1/0000:04:00.1."]
    assert "Claimed by USBDeviceClaim" in (await laneway("claim", "node1/1-3")).lines[-1]
    assert (await laneway("release", "node1/1-3")).lines == ["Released node1/1-3."]
    wrong = await laneway("claim", "node1/04:00.9", status=1)
    assert "the cluster has no device node1/04:00.9" in wrong.err
    assert (
        "Did you mean node1/0000:04:00.1" in (await laneway("claim", "nod1/04:00.1", status=1)).err
    )


Completed = Callable[..., Awaitable[list[str]]]


@pytest.fixture
def completed(kubeconfig: str) -> Completed:
    async def ask(*words: str, kubeconfig: str = kubeconfig) -> list[str]:
        """What the shell offers for the last of the words."""
        variables = {
            "_LANEWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("laneway", *words)),
            "COMP_CWORD": str(len(words)),
            "KUBECONFIG": kubeconfig,
            "HOME": "/proc/none",
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "laneway",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **variables},
        )
        out, err = await process.communicate()
        assert err == b""
        return [line.partition(",")[2] for line in out.decode().splitlines() if line]

    return ask


@pytest.mark.slow
async def test_live_names_are_completed(cluster: Any, a2: Any, completed: Completed) -> None:
    await carries(cluster)
    assert await completed("gpus", "no") == ["node1/08:00.0"]
    assert "A2-4Q" in await completed("vgpu", "set", TITLE, "A2-")
    assert await completed("vgpu", "set", "node1/09:00.0", "A2-") == []  # another GPU's
    assert await completed("gpus", "--node", "n") == ["node1"]
    assert await completed("explain", "vgpudevice/node1-000008004") == [f"vgpudevice/{VGPU}"]
    assert "node1/04:00.1" in await completed("claim", "node1/04")


async def test_without_a_cluster_nothing_is_completed_and_nothing_is_said(
    completed: Completed,
) -> None:
    assert await completed("gpus", "no", kubeconfig="/proc/none/x") == []
    assert await completed("gpus", "--context", "", kubeconfig="/proc/none/x") == []
    assert await completed("gp", kubeconfig="/proc/none/x") == ["gpus", "gpu"]
