"""`laneway up` as a process: used, stopped and killed."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.embedded import Embedded
from support.examples import first
from support.processes import (
    DEVICES,
    PROFILE,
    READY,
    SECONDS,
    SPEC,
    VGPU,
    Api,
    Laneway,
    environment,
    failure,
)

_BESIDE = Path(sys.executable).parent / "kubectl"
KUBECTL = shutil.which("kubectl") or (str(_BESIDE) if _BESIDE.exists() else "")
needs_kubectl = pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")

Start = Callable[..., Laneway]


@pytest.fixture
def kubectl(running: Laneway, data_dir: Path) -> Callable[..., str]:
    def run(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [KUBECTL, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=environment(KUBECONFIG=str(data_dir / "kubeconfig")),
        )
        assert done.returncode == status, done.stderr
        return done.stderr if status else done.stdout

    return run


@needs_kubectl
def test_kubectl_shows_the_simulated_card_with_its_sixteen_vgpus(
    kubectl: Callable[..., str],
) -> None:
    shown = kubectl("get", "pcidevices,sriovgpudevices,vgpudevices", "-o", "wide")
    pci, gpus, vgpus = shown.split("\n\n")
    heading, *rows = pci.splitlines()
    assert heading.split("  ")[0] == "NAME"
    assert "CLAIMABLE" in heading
    [card] = [row for row in rows if "/sim-a2-1-000008000 " in row]
    assert "NVIDIA Corporation GA107GL [A2 / A16]" in card
    assert "nvidia.com/GA107GL_A2" in card
    assert [row.split()[3] for row in gpus.splitlines()[1:]] == ["true"]
    assert len(vgpus.splitlines()) == 1 + 16


@needs_kubectl
def test_desired_state_is_carried_out_and_taken_back_and_an_impossible_one_says_why(
    kubectl: Callable[..., str],
    api: Api,
) -> None:
    def desired(**spec: Any) -> tuple[str, ...]:
        return ("patch", "vgpudevice", VGPU, "--type", "merge", "-p", json.dumps({"spec": spec}))

    def wait(condition: str) -> None:
        kubectl("wait", f"--for={condition}", f"vgpudevice/{VGPU}", f"--timeout={SECONDS:g}s")

    def read(path: str) -> str:
        return kubectl("get", "vgpudevice", VGPU, "-o", f"jsonpath={{{path}}}")

    def offered(vgpu: Any) -> set[str]:
        types = vgpu["status"].get("availableTypes", {})
        return {name.removeprefix("NVIDIA A2-") for name in types}

    sibling = "sim-a2-1-000008005"
    kubectl(*desired(enabled=True, vGPUTypeName=PROFILE))
    wait("condition=Ready")
    assert read(".status.configureVGPUTypeName") == PROFILE
    assert read(".status.vGPUStatus") == "vGPUConfigured"
    assert len(read(".status.uuid")) == 36
    # One card carries vGPUs of one size.
    api.until("vgpudevices", sibling, lambda vgpu: offered(vgpu) == {"4A", "4C", "4Q"})

    kubectl(*desired(enabled=False))
    wait("condition=Ready")
    assert (read(".status.uuid"), read(".status.vGPUStatus")) == ("", "")
    api.until("vgpudevices", sibling, lambda vgpu: "16Q" in offered(vgpu))

    said = kubectl(*desired(enabled=True, vGPUTypeName="NVIDIA A2-3Q"), status=1)
    assert f"NVIDIA A2-3Q is not a valid profile for vGPU device {VGPU}" in said
    assert read(".spec.enabled") == "false"


@needs_kubectl
def test_what_is_printed_can_be_typed(running: Laneway, api: Api) -> None:
    lines = running.lines
    said = lines[lines.index("In another terminal:") + 2 : lines.index(READY) - 2]
    assert said[0].startswith("  export KUBECONFIG=")
    try:
        done = subprocess.run(
            ["/bin/sh", "-e"],
            input="\n".join(said).replace("  kubectl ", f"  '{KUBECTL}' "),
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=environment(),
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "V GPU" in done.stdout
    finally:
        api.desired(enabled=False)


def test_second_process_on_the_same_directory_is_sent_away(
    running: Laneway, api: Api, data_dir: Path
) -> None:
    before = api.versions()
    line = failure("up", *SPEC, "--data-dir", str(data_dir))
    assert f"in use by another laneway (process {running.process.pid})" in line
    assert api.versions() == before


def test_port_in_use_is_said(running: Laneway, api: Api, start: Start, tmp_path: Path) -> None:
    plain = ("up", "--no-local", "--simulate", "plain", "--data-dir", str(tmp_path))
    port = api.url.rpartition(":")[2]
    said = failure(*plain, "--port", port, "--ui-port", "0")
    assert f"127.0.0.1:{port} is in use" in said
    assert not (tmp_path / "kubeconfig").exists()

    ui = urlsplit(running.until("/sign-in/once/").strip()).port
    second = start(*plain, "--port", "0", "--ui-port", str(ui))
    said = second.until("choose another with --ui-port")
    assert f"cannot serve the web interface on 127.0.0.1 port {ui}: " in said
    assert second.ended() == 1


# An end of the process


@pytest.mark.slow
@pytest.mark.parametrize("number", first(signal.SIGTERM, signal.SIGINT))
def test_stop_is_clean_despite_a_watch(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    up = start("up", *SPEC, "--data-dir", str(tmp_path))
    up.until(READY)
    with Api(tmp_path).open(f"{DEVICES}/vgpudevices?watch=1") as watch:
        watch.readline()
        assert up.end(number) == 0
    after = up.lines[up.lines.index(READY) + 1 :]
    assert after == ["Stopped. The same command continues from here."]
    assert not list(tmp_path.glob("state.db-*"))


@pytest.mark.slow
def test_no_webhook_is_called_when_laneway_has_stopped(start: Start, tmp_path: Path) -> None:
    def reviews() -> list[str]:
        configurations = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
        found = [Api(tmp_path).call(configurations.format(k)) for k in ("mutating", "validating")]
        return [
            webhook["clientConfig"]["url"]
            for configuration in found
            for one in configuration["items"]
            for webhook in one["webhooks"]
        ]

    arguments = ("up", *SPEC, "--data-dir", str(tmp_path))
    up = start(*arguments)
    up.until(READY)
    killed = reviews()
    assert up.end(signal.SIGKILL) != 0
    up = start(*arguments)
    up.until(READY)
    assert reviews() != killed
    assert len(reviews()) == len(killed)
    Api(tmp_path).desired(enabled=True, vGPUTypeName=PROFILE)
    assert up.end() == 0
    bare = Embedded(tmp_path)
    bare.start()
    try:
        assert reviews() == []
    finally:
        bare.end()


@pytest.mark.slow
def test_stop_while_starting_is_clean_and_the_next_start_completes(
    start: Start, tmp_path: Path
) -> None:
    arguments = ("up", *SPEC, "--data-dir", str(tmp_path))
    up = start(*arguments)
    up.until("API server listening")
    assert up.end() == 0
    assert up.lines[-1].startswith("Stopped.")
    start(*arguments).until(READY)


@pytest.mark.slow
def test_nothing_is_lost_or_written_again_when_killed(start: Start, tmp_path: Path) -> None:
    arguments = ("up", *SPEC, "--data-dir", str(tmp_path))
    first = start(*arguments)
    first.until(READY)
    made = Api(tmp_path).desired(enabled=True, vGPUTypeName=PROFILE)
    ids = {key: uid for key, (uid, _) in Api(tmp_path).versions().items()}
    first.end(signal.SIGKILL)

    second = start(*arguments)
    second.until(READY)
    again = Api(tmp_path)
    vgpu = again.call(f"{DEVICES}/vgpudevices/{VGPU}")
    assert vgpu["status"]["uuid"] == made["status"]["uuid"]
    assert vgpu["status"]["configureVGPUTypeName"] == PROFILE
    settled = again.versions()
    assert {key: uid for key, (uid, _) in settled.items()} == ids
    second.end(signal.SIGKILL)

    third = start("up", *SPEC, "--simulate", "a2", "--data-dir", str(tmp_path))
    third.until(READY)
    now = Api(tmp_path).versions()
    assert {key: now[key] for key in settled} == settled
    assert third.end() == 0

    # Another set of hosts: what is known of the absent ones stays, and no pod is sent to them.
    plain = ("--no-local", "--simulate", "plain", "--port", "0", "--ui-port", "0")
    last = start("up", *plain, "--data-dir", str(tmp_path))
    last.until(READY)
    assert last.until("Known from an earlier run").endswith(": sim-a2-1, sim-a2-2")
    assert "patch vgpudevice" not in last.said
    now = Api(tmp_path).versions()
    assert {key: now[key] for key in settled} == settled
