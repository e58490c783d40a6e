"""`laneway gpus`, `gpu`, `vgpu` and `explain` as a person runs them, with real agents."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from laneway.api import (
    KINDS,
    CoreNode,
    PCIDevice,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
    kind_of,
)
from laneway.apiserver.authn import Authenticator, User
from laneway.apiserver.server import ApiServer
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import Resource, served
from laneway.roles.install import install_crds

GPU = "node1-000008000"
TITLE = "node1/0000:08:00.0"
VGPU = "node1-000008004"
Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, CoreNode)


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Laneway = Callable[..., Awaitable[Done]]


async def started(*arguments: str, kubeconfig: str) -> Process:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "laneway",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env=kept | {"KUBECONFIG": kubeconfig, "HOME": "/proc/none", "COLUMNS": "80"},
    )


async def ended(process: Process) -> Done:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert b"Traceback" not in err, err.decode()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    return (
        os.environ.get("KUBECONFIG", "")
        if "LANEWAY_REALAPI" in os.environ
        else str(tmp_path / "kubeconfig")
    )


@pytest.fixture
def laneway(cluster: Any, kubeconfig: str) -> Laneway:
    """Runs a command against the cluster; `status` is how it must end."""

    async def run(*arguments: str, status: int = 0) -> Done:
        done = await ended(await started(*arguments, kubeconfig=kubeconfig))
        assert done.status == status, done
        return done

    return run


@pytest.fixture
async def a2(cluster: Any, simulated: Any) -> Any:
    """A node with one A2, whose agent runs."""
    host = simulated("a2", "node1")
    await register(cluster, "node1")
    host.agent = await cluster.start_agent("node1", host)
    return host


async def register(cluster: Any, node: str, **labels: str) -> None:
    """As the kubelet of a node does."""
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
    await cluster.client.create(served(CoreNode), body)


async def layout(cluster: Any, name: str, **spec: Any) -> None:
    info = kind_of(VGPULayout)
    body = {"apiVersion": info.api_version, "kind": info.kind, "metadata": {"name": name}}
    await cluster.client.create(served(VGPULayout), {**body, "spec": spec})


def plain(text: str) -> str:
    """Words, however they are aligned."""
    return " ".join(text.split())


async def trial(cluster: Any) -> None:
    """Wait until a dry run has asked the agents."""
    async with asyncio.timeout(60):
        while not await cluster.names(VGPULayout):  # noqa: ASYNC110 - its name is not known
            await asyncio.sleep(0.01)


# --------------------------------------------------------------------------------- what there is


@pytest.mark.realapi
async def test_the_tree_tells_what_a_gpu_carries_and_has_room_for(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.until(SRIOVGPUDevice, GPU, lambda gpu: gpu.status.configured == {Q4: 1})

    done = await laneway("gpus")

    assert done.lines == [
        "GPU             BOARD  MODE      VGPUS    STATE",
        "node1",
        "  0000:08:00.0  A2     SameSize  1 of 16  Enabled",
        "    carries 1 x A2-4Q",
        "    room for 3 x A2-4A/C/Q (each for itself)",
    ]
    assert done.err == ""
    assert (await laneway("gpus", "--node", "node1")).out == done.out
    verbose = (await laneway("gpus", "--verbose")).lines
    assert verbose == [*done.lines, f"    0000:08:00.4 A2-4Q: vgpudevice/{VGPU}"]


async def test_a_wish_that_is_not_met_is_told_with_its_reason(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.ask(VGPU, "NVIDIA A2-99Q")
    await cluster.answer(VGPU, "ProfileUnknown")
    await cluster.patch(SRIOVGPUDevice, GPU, {"spec": {"enabled": False}})
    await cluster.answer(GPU, "VgpusEnabled", SRIOVGPUDevice)

    out = (await laneway("gpus")).out

    assert "to be disabled: VgpusEnabled" in out
    assert f"first on VGPUDevice {VGPU}." in out
    assert "wished and not there: 1 x A2-99Q" in out
    verbose = (await laneway("gpus", "--verbose")).out
    assert "0000:08:00.4 none, wished A2-99Q (" in verbose


async def test_no_gpu_at_all_is_said(cluster: Any, laneway: Laneway) -> None:
    assert "No GPU that can be shared." in (await laneway("gpus")).out
    assert "no GPU that can be shared" in (await laneway("gpus", "--node", "x", status=1)).err
    assert (
        "no GPU that can be shared" in (await laneway("gpu", "enable", "a/08:00.0", status=1)).err
    )


async def test_objects_of_nodes_that_are_gone_are_called_stale(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    down = {
        "conditions": [
            {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting status."}
        ]
    }
    await cluster.patch(CoreNode, "node1", {"status": down}, "status")

    assert "node1 (the node is not ready: Kubelet stopped" in (await laneway("gpus")).out
    asked = await laneway("gpu", "enable", TITLE)
    assert "warning: node1: the node is not ready" in asked.err

    await cluster.stop_agent(a2.agent)
    await cluster.client.delete(served(CoreNode), "node1")
    before = await cluster.get(SRIOVGPUDevice, GPU)

    assert "node1 (the cluster has no such node any more;" in (await laneway("gpus")).out
    refused = await laneway("gpu", "disable", TITLE, status=1)
    assert f"kubectl delete sriovgpudevice {GPU}" in refused.err
    assert "no such node any more" in (await laneway("explain", TITLE)).out
    assert await cluster.get(SRIOVGPUDevice, GPU) == before


async def test_text_of_the_server_cannot_command_a_terminal(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.stop_agent(a2.agent)
    evil = "\x1b[2Jowned\r\n\u202egnp\x9b31m"
    condition = {"type": "Ready", "status": "False", "reason": "Odd", "message": evil}
    generation = (await cluster.get(SRIOVGPUDevice, GPU)).metadata.generation
    status = {
        "mode": evil,
        "fits": {evil: 1},
        "conditions": [{**condition, "observedGeneration": generation}],
    }
    await cluster.patch(SRIOVGPUDevice, GPU, {"status": status}, "status")
    await cluster.patch(
        PCIDevice, GPU, {"status": {"description": f"[{evil}]", "deviceId": "0"}}, "status"
    )
    await cluster.patch(
        VGPUDevice,
        VGPU,
        {"status": {"configureVGPUTypeName": evil, "vGPUStatus": "vGPUConfigured"}},
        "status",
    )

    for arguments, expected in [
        (("gpus", "-v"), 0),
        (("explain", TITLE), 0),
        (("explain", "node1/08:00.4"), 0),
        (("gpu", "enable", TITLE), 1),
        (("gpu", "enable", f"{evil}/08:00.0"), 1),
    ]:
        done = await laneway(*arguments, status=expected)
        assert "gnp" in done.out + done.err
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", done.out + done.err)


# ----------------------------------------------------------------------------- enable and disable


@pytest.mark.realapi
async def test_a_gpu_is_disabled_and_enabled_again(cluster: Any, a2: Any, laneway: Laneway) -> None:
    off = await laneway("gpu", "disable", "node1/08:00.0")

    assert (await cluster.get(SRIOVGPUDevice, GPU)).status.vf_addresses == []
    *progress, last = off.lines
    assert re.fullmatch(r" +\d+\.\d s  InProgress: Being done: disable the 16 .*", progress[-1])
    assert last.startswith("Done. No virtual functions")

    on = await laneway("gpu", "enable", GPU)
    again = await laneway("gpu", "enable", "node1/0000:08:00.0")

    assert len((await cluster.get(SRIOVGPUDevice, GPU)).status.vf_addresses) == 16
    assert on.lines[-1].startswith("Done. The GPU has 16 virtual functions")
    assert again.lines == on.lines[-1:]


async def test_a_mode_is_chosen(cluster: Any, a2: Any, laneway: Laneway) -> None:
    await laneway("gpu", "enable", TITLE, "--mode", "mixedsize")

    gpu = await cluster.get(SRIOVGPUDevice, GPU)
    assert (gpu.spec.mode, gpu.status.mode) == ("MixedSize", "MixedSize")


async def test_what_the_agent_refuses_ends_the_wait_with_its_words(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    done = await laneway("gpu", "enable", TITLE, "--mode", "MIGBacked", status=1)

    words, last = done.err.splitlines()
    assert words.startswith("MigUnsupported: 0000:08:00.0 has no MIG mode.")
    assert last.startswith("laneway: refused; the wish stays")
    before = '{"spec": {"enabled": true, "mode": ""}}'
    assert last.endswith(f"kubectl patch sriovgpudevice {GPU} --type merge -p '{before}'")


async def test_what_objects_show_against_a_wish_is_told_before_it_is_written(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    before = (await cluster.get(SRIOVGPUDevice, GPU)).spec

    for more in ((), ("--mode", "MIG", "--dry-run")):
        done = await laneway("gpu", "disable", TITLE, *more, status=1)
        assert f"first on VGPUDevice {VGPU}." in done.err
        assert done.err.splitlines()[-1].startswith("laneway: refused; nothing w")
        assert done.out == ""
    mixed = await laneway("gpu", "enable", TITLE, "--mode", "MixedSize", status=1)
    assert VGPU in mixed.err

    assert (await cluster.get(SRIOVGPUDevice, GPU)).spec == before


async def test_a_dry_run_tells_the_change_and_makes_none(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    before = await cluster.get(SRIOVGPUDevice, GPU)

    shown = await laneway("gpu", "disable", TITLE, "--mode", "Passthrough", "--dry-run")
    nothing = await laneway("gpu", "enable", TITLE, "--dry-run")

    assert shown.lines[1:] == ["  spec.enabled: true -> false", "  spec.mode: none -> Passthrough"]
    assert nothing.lines == ["Nothing to do: everything is as asked for."]
    assert await cluster.get(SRIOVGPUDevice, GPU) == before


async def test_nobody_waits_who_does_not_want_to(cluster: Any, a2: Any, laneway: Laneway) -> None:
    await cluster.stop_agent(a2.agent)

    done = await laneway("gpu", "disable", TITLE, "--no-wait")

    assert done.lines == [f"Asked for {TITLE}; its agent carries it out."]
    assert not (await cluster.get(SRIOVGPUDevice, GPU)).spec.enabled


async def test_an_agent_that_does_not_answer_is_told_of(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.stop_agent(a2.agent)

    for command in (("gpu", "disable", TITLE), ("vgpu", "set", TITLE, "A2-4Q")):
        done = await laneway(*command, "--timeout", "1", status=1)
        assert "waiting for the agent of node1" in done.out
        assert "no agent has answered within 1 s" in done.err
        assert "--field-selector spec.nodeName=node1" in done.err


async def test_a_server_that_restarts_meanwhile_is_waited_for(
    cluster: Any, a2: Any, kubeconfig: str
) -> None:
    if cluster.server is None:
        pytest.skip("only the embedded server can be restarted")
    await cluster.stop_agent(a2.agent)
    process = await started("gpu", "disable", TITLE, kubeconfig=kubeconfig)
    gpu = await cluster.until(SRIOVGPUDevice, GPU, lambda gpu: not gpu.spec.enabled)

    await cluster.server.stop()
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while b"no answer" not in (line := await process.stdout.readline()):
            assert line
    await cluster.server.start()
    answer = {
        "type": "Ready",
        "status": "True",
        "reason": "Disabled",
        "message": "It is.",
        "observedGeneration": gpu.metadata.generation,
    }
    await cluster.patch(SRIOVGPUDevice, GPU, {"status": {"conditions": [answer]}}, "status")

    done = await ended(process)
    assert (done.status, done.lines[-1]) == (0, "Done. It is.")


async def test_a_gpu_that_there_is_not_is_answered_with_those_that_are(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    for wrong in ("node2/08:00.0", "../.."):
        done = await laneway("gpu", "enable", wrong, status=1)
        assert TITLE in done.err, wrong


async def test_a_mode_without_functions_is_no_mode_to_enable_with(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    refused = await laneway("gpu", "enable", TITLE, "--mode", "mig", status=2)
    assert "For mode MIG: laneway gpu disable NODE/ADDRESS --mode MIG" in refused.err
    unknown = await laneway("gpu", "enable", TITLE, "--mode", "mixed", status=2)
    assert "it is one of SameSize, MixedSize, MIGBacked" in unknown.err
    await laneway("gpu", "disable", TITLE, "--mode", "Passthrough")
    done = await laneway("gpu", "enable", TITLE, status=1)
    assert "Mode Passthrough has no virtual functions" in done.err
    await laneway("gpu", "enable", TITLE, "--mode", "SameSize")


# ------------------------------------------------------------------------------------- vgpu set


@pytest.mark.realapi
async def test_vgpus_come_stay_and_go(cluster: Any, a2: Any, laneway: Laneway) -> None:
    two = await laneway("vgpu", "set", TITLE, "A2-4Q=2")
    assert two.lines[-1] == f"Done. As asked for: 2 x {Q4}."
    kept = cluster.carried(a2)
    assert list(kept.values()) == [Q4, Q4]

    await laneway("vgpu", "set", TITLE, f"{Q4}=3")
    assert cluster.carried(a2).items() > kept.items()
    assert "layout node1-000008000: Done" in (await laneway("gpus")).out

    await laneway("vgpu", "set", TITLE, "a2-8q", "A2-8Q")
    assert list(cluster.carried(a2).values()) == [Q8, Q8]

    none = await laneway("vgpu", "set", TITLE, "none")
    assert none.lines[-1] == "Done. As asked for: no vGPUs."
    assert cluster.carried(a2) == {}
    assert await cluster.names(VGPULayout) == {GPU}


async def test_a_mode_that_was_chosen_stays(cluster: Any, a2: Any, laneway: Laneway) -> None:
    await laneway("vgpu", "set", TITLE, "A2-4Q", "A2-8Q", "--mode", "MixedSize")
    shown = await laneway("vgpu", "set", TITLE, "A2-2Q", "A2-8Q", "--dry-run")
    await laneway("vgpu", "set", TITLE, "A2-2Q", "A2-8Q")

    assert sorted(cluster.carried(a2).values()) == ["NVIDIA A2-2Q", Q8]
    assert [line for line in shown.lines if "create NVIDIA A2-2Q" in line]


@pytest.mark.realapi
async def test_a_plan_is_shown_and_nothing_is_left_of_it(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await laneway("gpu", "disable", TITLE)
    before = await cluster.get(SRIOVGPUDevice, GPU)

    done = await laneway("vgpu", "set", TITLE, "A2-4Q=2", "--dry-run")
    refused = await laneway("vgpu", "set", TITLE, "A2-4Q=5", "--dry-run", status=1)

    assert done.lines[0] == "Would do, in this order:"
    assert done.lines[1].startswith("  1. enable the 16 virtual functions")
    assert Q4 in done.lines[-2]
    assert done.lines[-1].endswith("room, each for itself, for 2 x A2-4A/C/Q.")
    assert refused.err.splitlines()[1].startswith("LayoutDoesNotFit: 5 x NVIDIA A2-4Q do not fit")
    assert refused.err.splitlines()[-1] == "laneway: refused; nothing would be changed"
    assert await cluster.names(VGPULayout) == set()
    assert await cluster.get(SRIOVGPUDevice, GPU) == before


async def test_a_plan_for_what_is_there_already_is_empty(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await laneway("vgpu", "set", TITLE, "A2-4Q=2")

    done = await laneway("vgpu", "set", TITLE, "A2-4Q=2", "--dry-run")

    assert done.lines == ["Nothing to do: everything is as asked for."]
    assert await cluster.names(VGPULayout) == {GPU}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_nothing_is_left_of_a_dry_run_that_was_interrupted(
    cluster: Any, a2: Any, kubeconfig: str, number: signal.Signals
) -> None:
    await cluster.stop_agent(a2.agent)
    process = await started("vgpu", "set", TITLE, "A2-4Q", "--dry-run", kubeconfig=kubeconfig)
    await trial(cluster)

    process.send_signal(number)

    assert (await ended(process)).status == 130
    assert await cluster.names(VGPULayout) == set()


async def test_nothing_is_left_of_a_dry_run_that_nobody_answered(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.stop_agent(a2.agent)

    done = await laneway("vgpu", "set", TITLE, "A2-4Q", "--dry-run", "--timeout", "1", status=1)

    assert "no agent has answered" in done.err
    assert await cluster.names(VGPULayout) == set()


async def test_a_gpu_that_another_layout_has_is_left_to_it(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await layout(cluster, "everywhere", vgpus=[{"profile": Q8, "count": 1}])

    for more in ((), ("--dry-run",)):
        done = await laneway("vgpu", "set", TITLE, "A2-4Q", *more, status=1)
        assert f"VGPULayout everywhere has {TITLE} already." in done.err
    await cluster.answer("everywhere", "Done", VGPULayout)
    refused = await laneway("gpu", "disable", TITLE, status=1)
    assert "VGPULayout everywhere decides about" in refused.err

    assert await cluster.names(VGPULayout) == {"everywhere"}
    assert "layout everywhere: Done" in (await laneway("gpus")).out


async def test_a_layout_that_means_other_gpus_is_no_hindrance(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    vgpus = [{"profile": Q8, "count": 1}]
    await layout(cluster, "others", gpuSelector={"deviceIDs": ["2330"]}, vgpus=vgpus)
    await layout(cluster, "elsewhere", nodeSelector={"names": ["node2"]}, vgpus=vgpus)
    await layout(cluster, "labelled", nodeSelector={"matchLabels": {"gpu": "yes"}}, vgpus=vgpus)
    await layout(cluster, "asking", vgpus=vgpus, dryRun=True)

    await laneway("vgpu", "set", TITLE, "A2-4Q")

    assert list(cluster.carried(a2).values()) == [Q4]


async def test_a_layout_of_that_name_with_another_meaning_is_not_changed(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await layout(cluster, GPU, gpuSelector={"names": [GPU, "node2-000008000"]})

    done = await laneway("vgpu", "set", TITLE, "A2-4Q", status=1)

    assert f"VGPULayout {GPU} does not select {TITLE} alone" in done.err
    assert not (await cluster.get(VGPULayout, GPU)).spec.vgpus


async def test_profiles_are_checked_before_anything_is_written(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    unknown = await laneway("vgpu", "set", TITLE, "A2-77Q", status=1)
    assert "this GPU has no profile A2-77Q; the closest are A2-" in unknown.err
    foreign = await laneway("vgpu", "set", TITLE, "RTX6000-1", status=1)
    assert "this GPU has no profile RTX6000-1; it has A2-1A, A2-1B" in foreign.err
    odd = await laneway("vgpu", "set", TITLE, "A2-4Q=0", status=2)
    assert "no profile with a count" in odd.err
    assert await cluster.names(VGPULayout) == set()

    newer = await laneway("vgpu", "set", TITLE, "NVIDIA A2-77Q", status=1)
    assert "ProfileUnknown" in newer.err


# -------------------------------------------------------------------------------------- explain


async def test_a_gpu_is_explained_by_its_node_and_address(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await laneway("vgpu", "set", TITLE, "A2-8Q")
    await cluster.until(SRIOVGPUDevice, GPU, lambda gpu: gpu.status.configured == {Q8: 1})

    out = (await laneway("explain", "node1/08:00.0")).out

    assert out.startswith(f"SRIOVGPUDevice {GPU}\n")
    short = out.partition("\nObject\n")[0]
    for expected in (
        f"GPU {TITLE} A2",
        "its state Enabled",
        "its mode SameSize",
        "it carries 1 x A2-8Q",
        "it has room for 1 x A2-8A/C/Q",
        f"layouts {GPU}: Done",
        f"laneway vgpu set {TITLE} PROFILE=COUNT",
    ):
        assert expected in plain(short)
    assert out == (await laneway("explain", f"sriovgpudevice/{GPU}")).out


async def test_a_vgpu_is_explained_with_its_gpu_and_what_stands_against_it(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.ask(VGPU, "NVIDIA A2-99Q")
    await cluster.answer(VGPU, "ProfileUnknown")

    out = ""
    while "\nEvents\n" not in out:
        out = (await laneway("explain", "node1/08:00.4")).out

    assert out.startswith(f"VGPUDevice {VGPU}\n")
    short = out.partition("\nObject\n")[0]
    assert " is no vGPU wished NVIDIA A2-99Q possible now A2-1A, A2-1B" in plain(short)
    assert "The driver offers no profile named 'NVIDIA A2-99Q'" in short.partition("What to do")[2]
    assert "Warning ProfileUnknown" in out


@pytest.mark.realapi
async def test_a_layout_is_explained_gpu_by_gpu(cluster: Any, a2: Any, laneway: Laneway) -> None:
    await layout(cluster, "mine", vgpus=[{"profile": Q4, "count": 5}])
    await cluster.answer("mine", "Refused", VGPULayout)

    out = (await laneway("explain", "vgpulayout/mine")).out

    short = out.partition("\nObject\n")[0]
    assert "GPUs as asked for 0 of 1 asks each for 5 x A2-4Q" in plain(short)
    assert f"{GPU}: Refused\n" in short
    assert "do not fit" in short


async def test_instances_of_a_card_are_explained(
    cluster: Any, simulated: Any, laneway: Laneway
) -> None:
    await register(cluster, "node3")
    await cluster.start_agent("node3", simulated("a100", "node3"))
    await laneway("vgpu", "set", "node3/17:00.0", "A100-2-10C=2", "A100-1-5C")

    tree = (await laneway("gpus")).lines
    out = (await laneway("explain", "migconfiguration/node3-000017000")).out

    place = next(n for n, line in enumerate(tree) if "0000:17:00.0" in line)
    assert tree[place].split() == ["0000:17:00.0", "A100", "MIGBacked", "3", "of", "16", "Enabled"]
    assert "    GPU instances 1 x 1g.5gb, 2 x 2g.10gb" in tree[place:]
    assert " is 1 x 1g.5gb, 2 x 2g.10gb synced" in plain(out)
    assert "its mode MIGBacked" in plain(out)


async def test_a_device_that_there_is_not_is_told(cluster: Any, a2: Any, laneway: Laneway) -> None:
    done = await laneway("explain", "node9/08:00.0", status=1)
    assert "no device at 0000:08:00.0 of node node9" in done.err
    assert (await laneway("explain", "node1/01:00.0")).out.startswith("PCIDevice node1-000001000\n")


# --------------------------------------------------------------------- servers that do not help


async def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    done = await ended(await started("gpu", "enable", TITLE, kubeconfig=str(config)))
    assert done.status == 1
    assert "no answer from 127.0.0.1:1" in done.err
    assert "KUBECONFIG" in done.err


async def test_kinds_that_are_not_installed_are_told(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.stop_agent(a2.agent)
    await cluster.client.delete(CRDS, f"vgpulayouts.{kind_of(VGPULayout).group}")
    async with asyncio.timeout(60):
        while True:
            done = await laneway("vgpu", "set", TITLE, "A2-4Q", "--no-wait", status=1)
            if "no kind VGPULayout" in done.err:
                break
    assert "laneway crds | kubectl apply" in done.err
    assert TITLE.partition("/")[2] in (await laneway("gpus")).out
    for kind in KINDS:
        if kind.type is not VGPULayout:
            await cluster.client.delete(CRDS, f"{kind.plural}.{kind.group}")
    assert "no kind SRIOVGPUDevice" in (await laneway("gpus", status=1)).err


async def test_what_a_user_may_not_do_is_told(tmp_path: Path) -> None:
    users = {"all": User("admin", ("system:masters",)), "none": User("guest", ())}
    server = ApiServer(str(tmp_path / "state.db"), authenticator=Authenticator(users))
    await server.start()

    def config(token: str) -> str:
        path = tmp_path / token
        path.write_text(
            "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}]\n"
            f"users: [{{name: u, user: {{token: {token}}}}}]\n"
        )
        return str(path)

    try:
        async with Client(load(config("all"))) as client:
            await install_crds(client)
        for token, words in [("none", "Ask for a role"), ("unknown", "Log in again")]:
            for command in (("gpus",), ("gpu", "enable", TITLE)):
                done = await ended(await started(*command, kubeconfig=config(token)))
                assert done.status == 1
                assert words in done.err
                assert token not in done.err or token == "unknown"
    finally:
        await server.stop()
