"""`laneway gpus` and `gpu` as a person runs them, with real agents."""

from __future__ import annotations

import asyncio
import re
import signal
from typing import Any

import pytest

from laneway.api import (
    CoreNode,
    PCIDevice,
    SRIOVGPUDevice,
    VGPUDevice,
    VGPULayout,
)
from laneway.kube.resource import served
from support.commands import (
    GPU,
    Q4,
    TITLE,
    VGPU,
    Laneway,
    ended,
    register,
    started,
    trial,
)
from support.examples import first

SECONDS = 60.0

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
        "    has A2-4Q=1",
        "    room for 3 x A2-4A/C/Q",
    ]
    assert done.err == ""
    assert (await laneway("gpus", "--node", "node1")).out == done.out
    verbose = (await laneway("gpus", "--verbose")).lines
    assert verbose == [*done.lines, f"    0000:08:00.4 A2-4Q: vgpudevice/{VGPU}"]


@pytest.mark.slow
async def test_a_desired_state_that_is_not_met_is_reported_with_its_reason(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.ask(VGPU, "NVIDIA A2-99Q")
    await cluster.answer(VGPU, "ProfileNotOffered")
    await cluster.patch(SRIOVGPUDevice, GPU, {"spec": {"enabled": False}})
    await cluster.answer(GPU, "VgpusEnabled", SRIOVGPUDevice)

    out = (await laneway("gpus")).out

    assert "to be disabled: VgpusEnabled" in out
    assert f"first: kubectl patch vgpudevice {VGPU} --type merge" in out
    assert "desired and missing: A2-99Q=1" in out
    verbose = (await laneway("gpus", "--verbose")).out
    assert "0000:08:00.4 none, desired A2-99Q (" in verbose


@pytest.mark.slow
async def test_no_gpu_at_all_is_said(cluster: Any, laneway: Laneway) -> None:
    assert "No GPU that can be shared." in (await laneway("gpus")).out
    assert "no GPU that can be shared" in (await laneway("gpus", "--node", "x", status=1)).err
    assert (
        "no GPU that can be shared" in (await laneway("gpu", "enable", "a/08:00.0", status=1)).err
    )


@pytest.mark.slow
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


@pytest.mark.slow
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
async def test_a_gpu_is_disabled_and_enabled_again(
    cluster: Any, gate: Any, laneway: Laneway, kubeconfig: str
) -> None:
    host = gate("a2", "node1")
    await register(cluster, "node1")
    await cluster.start_agent("node1", host)
    host.held = "sriov-manage"  # else it may be done before the command looks for the first time
    running = await started("gpu", "disable", "node1/08:00.0", kubeconfig=kubeconfig)
    assert running.stdout is not None
    reported = ""
    async with asyncio.timeout(SECONDS):
        while not re.match(r" +\d+\.\d s  InProgress: In progress: disable the 16 ", reported):
            reported = (await running.stdout.readline()).decode()
            assert reported, "it ended without this line"
    host.open.set()
    off = await ended(running)

    assert off.status == 0, off
    assert await cluster.names(VGPUDevice) == set()  # a claim at once after it is not refused
    assert (await cluster.get(SRIOVGPUDevice, GPU)).status.vf_addresses == []
    assert off.lines[-1].startswith("Done. No virtual functions")

    on = await laneway("gpu", "enable", GPU)
    again = await laneway("gpu", "enable", "node1/0000:08:00.0")

    assert len((await cluster.get(SRIOVGPUDevice, GPU)).status.vf_addresses) == 16
    assert on.lines[-1].startswith("Done. The GPU has 16 virtual functions")
    assert again.lines == on.lines[-1:]


@pytest.mark.slow
async def test_a_mode_is_chosen(cluster: Any, a2: Any, laneway: Laneway) -> None:
    await laneway("gpu", "enable", TITLE, "--mode", "mixedsize")

    gpu = await cluster.get(SRIOVGPUDevice, GPU)
    assert (gpu.spec.mode, gpu.status.mode) == ("MixedSize", "MixedSize")


async def test_what_the_agent_refuses_is_not_stored(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    before = await cluster.get(SRIOVGPUDevice, GPU)

    done = await laneway("gpu", "enable", TITLE, "--mode", "MIGBacked", status=1)

    words, last = done.err.splitlines()
    assert words.startswith("MigUnsupported: 0000:08:00.0 has no MIG mode.")
    assert last == "laneway: refused; nothing was changed"
    assert await cluster.get(SRIOVGPUDevice, GPU) == before


@pytest.mark.slow
async def test_what_is_to_happen_when_it_is_possible_is_stored_with_the_way_to_cancel_it(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    backed = ("gpu", "enable", TITLE, "--mode", "MIGBacked", "--when-possible")
    done = await laneway(*backed)
    again = await laneway("gpu", "disable", TITLE, "--mode", "MIG", "--when-possible", "--no-wait")

    assert done.err.startswith("MigUnsupported: ")
    patch = f"kubectl patch sriovgpudevice {GPU} --type merge -p "
    assert done.lines[-1] == (
        "Not possible yet; the agent applies it once it is possible. To cancel: "
        f"""{patch}'{{"spec": {{"enabled": true, "mode": ""}}}}'"""
    )
    # Not what was refused: what is in force.
    assert again.lines[-1].endswith("""'{"spec": {"enabled": true, "mode": ""}}'""")


@pytest.mark.slow
async def test_mig_mode_without_instances_is_what_was_requested(
    cluster: Any, simulated: Any, laneway: Laneway
) -> None:
    await register(cluster, "node3")
    await cluster.start_agent("node3", simulated("a100", "node3"))
    a100 = "node3/0000:17:00.0"

    done = await laneway("gpu", "enable", a100, "--mode", "MIGBacked")

    assert done.lines[-1].startswith(f"Done. MIG mode is on; next: laneway vgpu set {a100} ")
    [row] = [line for line in (await laneway("gpus")).lines if "0000:17:00.0  A100" in line]
    assert row.split()[2:] == ["MIGBacked", "0", "of", "16", "Enabled"]


@pytest.mark.parametrize("number", first(signal.SIGINT, signal.SIGHUP))
async def test_an_interrupted_wait_says_what_goes_on_and_how_to_cancel_it(
    cluster: Any, gate: Any, kubeconfig: str, number: signal.Signals
) -> None:
    host = gate("a2", "node1")
    await register(cluster, "node1")
    await cluster.start_agent("node1", host)
    host.held = "sriov-manage"
    running = await started("gpu", "disable", "node1/08:00.0", kubeconfig=kubeconfig)
    await cluster.until(SRIOVGPUDevice, GPU, lambda gpu: not gpu.spec.enabled)
    assert running.stdout is not None
    assert await running.stdout.readline()  # it waits

    running.send_signal(number)
    done = await ended(running)
    host.open.set()

    assert done.status == 130
    last = done.err.splitlines()[-1]
    assert f"The agent of node1 goes on with SRIOVGPUDevice {GPU}." in last
    assert f"To watch: kubectl get sriovgpudevice {GPU} --watch" in last
    assert last.endswith(f"""{GPU} --type merge -p '{{"spec": {{"enabled": true}}}}'""")


@pytest.mark.slow
@pytest.mark.parametrize("theirs", first(False, True))
async def test_what_is_refused_after_it_was_stored_is_set_back_if_unchanged(
    cluster: Any, a2: Any, kubeconfig: str, theirs: bool
) -> None:
    await cluster.stop_agent(a2.agent)
    running = await started("gpu", "disable", TITLE, kubeconfig=kubeconfig)
    name = await trial(cluster)
    stored = await cluster.get(VGPULayout, name)
    entry = {"name": GPU, "observedGeneration": stored.metadata.generation, "state": "Planned"}
    await cluster.patch(VGPULayout, name, {"status": {"gpus": [entry]}}, "status")
    gpu = await cluster.until(SRIOVGPUDevice, GPU, lambda gpu: not gpu.spec.enabled)
    if theirs:
        await cluster.patch(SRIOVGPUDevice, GPU, {"spec": {"mode": "Passthrough"}})
    answer = {
        "type": "Ready",
        "status": "False",
        "reason": "DeviceInUse",
        "message": "VM default/vm has it.",
        "observedGeneration": gpu.metadata.generation + theirs,
    }
    await cluster.patch(SRIOVGPUDevice, GPU, {"status": {"conditions": [answer]}}, "status")

    done = await ended(running)

    assert done.status == 1
    *_, words, last = done.err.splitlines()
    assert words == "DeviceInUse: VM default/vm has it."
    spec = (await cluster.get(SRIOVGPUDevice, GPU)).spec
    if theirs:
        assert "another program may have changed it" in last
        assert (spec.enabled, spec.mode) == (False, "Passthrough")
    else:
        assert last == (
            f"laneway: refused; SRIOVGPUDevice {GPU} is as before, and the GPU was not changed"
        )
        assert spec.enabled


@pytest.mark.slow
async def test_what_objects_show_against_a_desired_state_is_reported_before_it_is_written(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    before = (await cluster.get(SRIOVGPUDevice, GPU)).spec

    for more in ((), ("--mode", "MIG", "--dry-run")):
        done = await laneway("gpu", "disable", TITLE, *more, status=1)
        assert f"first: kubectl patch vgpudevice {VGPU} --type merge" in done.err
        assert done.err.splitlines()[-1].startswith("laneway: refused; nothing w")
        assert done.out == ""
    mixed = await laneway("gpu", "enable", TITLE, "--mode", "MixedSize", status=1)
    assert VGPU in mixed.err

    assert (await cluster.get(SRIOVGPUDevice, GPU)).spec == before


@pytest.mark.slow
async def test_a_dry_run_tells_the_change_and_makes_none(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    before = await cluster.get(SRIOVGPUDevice, GPU)

    shown = await laneway("gpu", "disable", TITLE, "--mode", "Passthrough", "--dry-run")
    nothing = await laneway("gpu", "enable", TITLE, "--dry-run")

    assert shown.lines[1:] == ["  spec.enabled: true -> false", "  spec.mode: none -> Passthrough"]
    assert nothing.lines == ["Nothing to do: the GPU is as desired."]
    assert await cluster.get(SRIOVGPUDevice, GPU) == before


@pytest.mark.slow
async def test_waiting_is_optional(cluster: Any, a2: Any, laneway: Laneway) -> None:
    await cluster.stop_agent(a2.agent)

    done = await laneway("gpu", "disable", TITLE, "--when-possible", "--no-wait")

    assert done.lines[0].startswith(f"Stored in SRIOVGPUDevice {GPU}. To cancel: kubectl patch ")
    assert not (await cluster.get(SRIOVGPUDevice, GPU)).spec.enabled


@pytest.mark.slow
async def test_an_agent_that_does_not_answer_is_reported(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.stop_agent(a2.agent)

    for command in (("gpu", "disable", TITLE), ("vgpu", "set", TITLE, "A2-4Q")):
        done = await laneway(*command, "--timeout", "1", status=1)
        assert "nothing was changed: no agent answered within 1 s" in done.err
        assert "--field-selector spec.nodeName=node1" in done.err
    assert (await cluster.get(SRIOVGPUDevice, GPU)).spec.enabled
    assert await cluster.names(VGPULayout) == set()

    stored = await laneway("gpu", "disable", TITLE, "--when-possible", "--timeout", "1", status=4)
    assert "waiting for the agent of node1" in stored.out
    assert "goes on with SRIOVGPUDevice" in stored.err


@pytest.mark.slow
async def test_a_server_that_restarts_meanwhile_is_waited_for(
    cluster: Any, a2: Any, kubeconfig: str
) -> None:
    if cluster.server is None:
        pytest.skip("only the embedded server can be restarted")
    await cluster.stop_agent(a2.agent)
    process = await started("gpu", "disable", TITLE, "--when-possible", kubeconfig=kubeconfig)
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


@pytest.mark.slow
async def test_a_gpu_that_there_is_not_is_answered_with_those_that_are(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    for wrong in ("node2/08:00.0", "../.."):
        done = await laneway("gpu", "enable", wrong, status=1)
        assert TITLE in done.err or "Did you mean node1?" in done.err, wrong


@pytest.mark.slow
async def test_a_mode_without_functions_is_no_mode_to_enable_with(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    refused = await laneway("gpu", "enable", TITLE, "--mode", "mig", status=2)
    assert "For mode MIG: laneway gpu disable NODE/ADDRESS --mode MIG" in refused.err
    unknown = await laneway("gpu", "enable", TITLE, "--mode", "mixed", status=2)
    assert "Did you mean MixedSize?" in unknown.err
    await laneway("gpu", "disable", TITLE, "--mode", "Passthrough")
    done = await laneway("gpu", "enable", TITLE, status=1)
    assert "Mode Passthrough has no virtual functions" in done.err
    await laneway("gpu", "enable", TITLE, "--mode", "SameSize")
