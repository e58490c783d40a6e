"""`laneway vgpu` and `explain` as a person runs them, with real agents, and poor servers."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from kapilite.authn import Authenticator, User
from kapilite.server import ApiServer
from laneway.api import (
    KINDS,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    VGPULayout,
    kind_of,
)
from laneway.changes.trial import layout as dry_run_layout
from laneway.cli.progress import Printer
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import served
from laneway.roles.install import install_crds
from support.commands import (
    CRDS,
    GPU,
    Q4,
    Q8,
    TITLE,
    VGPU,
    Laneway,
    ended,
    layout,
    plain,
    register,
    started,
    trial,
)
from support.examples import first

# ------------------------------------------------------------------------------------- vgpu set


@pytest.mark.realapi
async def test_vgpus_come_stay_and_go(cluster: Any, a2: Any, laneway: Laneway) -> None:
    two = await laneway("vgpu", "set", TITLE, "A2-4Q=2")
    assert two.lines[-1] == "Done. As requested: A2-4Q=2."
    kept = cluster.carried(a2)
    assert list(kept.values()) == [Q4, Q4]

    await laneway("vgpu", "set", TITLE, f"{Q4}=3")
    assert cluster.carried(a2).items() > kept.items()
    assert "layout node1-000008000: Done" in (await laneway("gpus")).out

    await laneway("vgpu", "set", TITLE, "a2-8q", "A2-8Q")
    assert list(cluster.carried(a2).values()) == [Q8, Q8]

    none = await laneway("vgpu", "set", TITLE, "none")
    assert none.lines[-1] == "Done. As requested: no vGPUs."
    assert cluster.carried(a2) == {}
    assert await cluster.names(VGPULayout) == {GPU}


@pytest.mark.slow
async def test_a_mode_that_was_chosen_stays(cluster: Any, a2: Any, laneway: Laneway) -> None:
    await laneway("vgpu", "set", TITLE, "A2-4Q", "A2-8Q", "--mode", "MixedSize")
    shown = await laneway("vgpu", "set", TITLE, "A2-2Q", "A2-8Q", "--dry-run")
    await laneway("vgpu", "set", TITLE, "A2-2Q", "A2-8Q")

    assert sorted(cluster.carried(a2).values()) == ["NVIDIA A2-2Q", Q8]
    assert [line for line in shown.lines if "create A2-2Q" in line]


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
    assert "configure A2-4Q=2" in done.lines[-2]
    assert done.lines[-1].endswith("Room afterwards: 2 x A2-4A/C/Q.")
    assert refused.err.splitlines()[1].startswith("LayoutDoesNotFit: A2-4Q=5 does not fit")
    assert refused.err.splitlines()[-1] == "laneway: refused; nothing would be changed"
    assert await cluster.names(VGPULayout) == set()
    assert await cluster.get(SRIOVGPUDevice, GPU) == before


@pytest.mark.slow
async def test_a_plan_for_what_is_there_already_is_empty(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await laneway("vgpu", "set", TITLE, "A2-4Q=2")

    done = await laneway("vgpu", "set", TITLE, "A2-4Q=2", "--dry-run")

    assert done.lines == ["Nothing to do: the GPU is as desired."]
    assert await cluster.names(VGPULayout) == {GPU}


async def test_a_dry_run_whose_layout_another_client_deletes_ends_without_a_warning(
    cluster: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = {"gpuSelector": {"names": [GPU]}, "mode": "Passthrough"}
    async with dry_run_layout(cluster.client, spec, Printer()) as made:
        await cluster.client.delete(served(VGPULayout), made.metadata.name)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("number", first(signal.SIGINT, signal.SIGTERM))
async def test_nothing_is_left_of_a_dry_run_that_was_interrupted(
    cluster: Any, a2: Any, kubeconfig: str, number: signal.Signals
) -> None:
    await cluster.stop_agent(a2.agent)
    process = await started("vgpu", "set", TITLE, "A2-4Q", "--dry-run", kubeconfig=kubeconfig)
    await trial(cluster)

    process.send_signal(number)

    assert (await ended(process)).status == 130
    assert await cluster.names(VGPULayout) == set()


@pytest.mark.slow
async def test_nothing_is_left_of_a_dry_run_without_an_answer(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.stop_agent(a2.agent)

    done = await laneway("vgpu", "set", TITLE, "A2-4Q", "--dry-run", "--timeout", "1", status=1)

    assert "no agent answered" in done.err
    assert await cluster.names(VGPULayout) == set()


@pytest.mark.slow
async def test_a_gpu_that_another_layout_has_is_left_to_it(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await layout(cluster, "everywhere", vgpus=[{"profile": Q8, "count": 1}])

    for more in ((), ("--dry-run",)):
        done = await laneway("vgpu", "set", TITLE, "A2-4Q", *more, status=1)
        assert f"VGPULayout everywhere configures {TITLE}." in done.err
    await cluster.answer("everywhere", "Done", VGPULayout)
    refused = await laneway("gpu", "disable", TITLE, status=1)
    assert "VGPULayout everywhere configures" in refused.err

    assert await cluster.names(VGPULayout) == {"everywhere"}
    assert "layout everywhere: Done" in (await laneway("gpus")).out


@pytest.mark.slow
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


@pytest.mark.slow
async def test_a_layout_of_that_name_with_another_meaning_is_not_changed(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await layout(cluster, GPU, gpuSelector={"names": [GPU, "node2-000008000"]})

    done = await laneway("vgpu", "set", TITLE, "A2-4Q", status=1)

    assert f"VGPULayout {GPU} selects more than {TITLE}" in done.err
    assert not (await cluster.get(VGPULayout, GPU)).spec.vgpus


@pytest.mark.slow
async def test_profiles_are_checked_before_anything_is_written(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    unknown = await laneway("vgpu", "set", TITLE, "A2-77Q", status=1)
    assert "the GPU has no profile A2-77Q. " in unknown.err
    foreign = await laneway("vgpu", "set", TITLE, "RTX6000-1", status=1)
    assert "the GPU has no profile RTX6000-1. Its profiles are A2-1A, A2-1B" in foreign.err
    odd = await laneway("vgpu", "set", TITLE, "A2-4Q=0", status=2)
    assert "no profile with a count" in odd.err
    assert await cluster.names(VGPULayout) == set()

    newer = await laneway("vgpu", "set", TITLE, "NVIDIA A2-77Q", status=1)
    assert "ProfileNotOffered" in newer.err
    assert await cluster.names(VGPULayout) == set()


@pytest.mark.slow
async def test_a_refused_set_leaves_the_layout_as_it_is(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await laneway("vgpu", "set", TITLE, "A2-4Q=2")
    before = await cluster.get(VGPULayout, GPU)

    for more in ((), ("--no-wait",)):
        done = await laneway("vgpu", "set", TITLE, "A2-4Q=5", *more, status=1)
        assert done.err.splitlines()[-1] == "laneway: refused; nothing was changed"
        assert "--when-possible" not in done.err  # it never will be
    assert (await cluster.get(VGPULayout, GPU)).spec == before.spec

    later = await laneway("vgpu", "set", TITLE, "A2-4Q=5", "--when-possible")
    changed = await laneway("vgpu", "set", TITLE, "A2-4Q=3", "--no-wait", "--when-possible")

    back = """"vgpus": [{"profile": "NVIDIA A2-4Q", "count": 2}]"""
    assert back in later.lines[-1]
    assert changed.lines[-1].startswith(f"Stored in VGPULayout {GPU}. To cancel: ")


@pytest.mark.slow
async def test_a_gpu_that_is_claimed_whole_gets_no_vgpu(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await laneway("gpu", "disable", TITLE)
    claim = {"spec": {"nodeName": "node1", "address": "0000:08:00.0", "userName": "eve"}}
    info = kind_of(PCIDeviceClaim)
    body = {"apiVersion": info.api_version, "kind": info.kind, "metadata": {"name": GPU}, **claim}
    await cluster.client.create(served(PCIDeviceClaim), body)

    done = await laneway("vgpu", "set", TITLE, "A2-4Q", status=1)

    assert f"is claimed as a whole by PCIDeviceClaim {GPU} of user eve" in done.err
    assert await cluster.names(VGPULayout) == set()


# -------------------------------------------------------------------------------------- explain


@pytest.mark.slow
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
        "it has A2-8Q=1",
        "it has room for 1 x A2-8A/C/Q",
        f"layouts {GPU}: Done",
        f"laneway vgpu set {TITLE} PROFILE=COUNT",
    ):
        assert expected in plain(short)
    assert out == (await laneway("explain", f"sriovgpudevice/{GPU}")).out


@pytest.mark.slow
async def test_a_vgpu_is_explained_with_its_gpu_and_what_stands_against_it(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    await cluster.ask(VGPU, "NVIDIA A2-99Q")
    await cluster.answer(VGPU, "ProfileNotOffered")

    out = ""
    while "\nEvents\n" not in out:
        out = (await laneway("explain", "node1/08:00.4")).out

    assert out.startswith(f"VGPUDevice {VGPU}\n")
    short = out.partition("\nObject\n")[0]
    assert " is no vGPU desired A2-99Q possible now A2-1A, A2-1B" in plain(short)
    assert "The driver offers no profile named 'NVIDIA A2-99Q'" in short.partition("What to do")[2]
    assert "Warning ProfileNotOffered" in out


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_layout_is_explained_gpu_by_gpu(cluster: Any, a2: Any, laneway: Laneway) -> None:
    await layout(cluster, "mine", vgpus=[{"profile": Q4, "count": 5}])
    await cluster.answer("mine", "Refused", VGPULayout)

    out = (await laneway("explain", "vgpulayout/mine")).out

    short = out.partition("\nObject\n")[0]
    assert "GPUs as desired 0 of 1 vGPUs on each A2-4Q=5" in plain(short)
    assert f"{GPU}: Refused\n" in short
    assert "does not fit" in short


@pytest.mark.slow
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
    assert "    GPU instances 1g.5gb=1, 2g.10gb=2" in tree[place:]
    assert " is 1g.5gb=1, 2g.10gb=2 synced" in plain(out)
    assert "its mode MIGBacked" in plain(out)


@pytest.mark.slow
async def test_a_device_that_there_is_not_is_reported(
    cluster: Any, a2: Any, laneway: Laneway
) -> None:
    done = await laneway("explain", "node9/08:00.0", status=1)
    assert "node node9 has no devices. Nodes with devices: node1" in done.err
    assert (await laneway("explain", "node1/01:00.0")).out.startswith("PCIDevice node1-000001000\n")


# --------------------------------------------------------------------- servers that do not help


async def test_a_server_that_is_not_there_is_reported(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
    )
    done = await ended(await started("gpu", "enable", TITLE, kubeconfig=str(config)))
    assert done.status == 1
    assert "no answer from 127.0.0.1:1" in done.err
    assert "KUBECONFIG" in done.err


@pytest.mark.slow
async def test_kinds_that_are_not_installed_are_reported(
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


@pytest.mark.slow
async def test_what_a_user_may_not_do_is_reported(tmp_path: Path) -> None:
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
        for token, words in [
            ("none", "Ask an administrator for a role"),
            ("unknown", "Log in again"),
        ]:
            for command in (("gpus",), ("gpu", "enable", TITLE)):
                done = await ended(await started(*command, kubeconfig=config(token)))
                assert done.status == 1
                assert words in done.err
                assert token not in done.err or token == "unknown"
    finally:
        await server.stop()
