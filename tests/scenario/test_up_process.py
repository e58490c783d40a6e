"""`laneway up` and `laneway agent` as processes: used, stopped, killed, and given bad input."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.processes import DEVICES, SECONDS, VGPU, Api, Laneway, environment

PROFILE = "NVIDIA A2-4Q"
SPEC = ("--no-local", "--simulate", "a2", "--port", "0")
READY = "Stop with Ctrl-C."
"""The last line that `laneway up` prints when it is ready."""

_BESIDE = Path(sys.executable).parent / "kubectl"
KUBECTL = shutil.which("kubectl") or (str(_BESIDE) if _BESIDE.exists() else "")
needs_kubectl = pytest.mark.skipif(not KUBECTL, reason="kubectl is not installed")


Start = Callable[..., Laneway]


@pytest.fixture(scope="module")
def start_for_all() -> Iterator[Start]:
    yield from _starter()


@pytest.fixture
def start() -> Iterator[Start]:
    yield from _starter()


def _starter() -> Iterator[Start]:
    """Starts processes; those that a test leaves running are killed."""
    started: list[Laneway] = []

    def start(*arguments: str) -> Laneway:
        started.append(Laneway(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its name must be quoted in a shell."""
    return tmp_path_factory.mktemp("up") / "it's kept here"


@pytest.fixture(scope="module")
def running(start_for_all: Start, data_dir: Path) -> Laneway:
    """A `laneway up` that many tests use; each leaves it as it was."""
    up = start_for_all("up", *SPEC, "--data-dir", str(data_dir))
    up.until(READY)
    return up


@pytest.fixture(scope="module")
def api(running: Laneway, data_dir: Path) -> Api:
    return Api(data_dir)


@pytest.fixture
def kubectl(running: Laneway, data_dir: Path) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        done = subprocess.run(
            [KUBECTL, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env=environment(KUBECONFIG=str(data_dir / "kubeconfig")),
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def stopped_dir(tmp_path_factory: pytest.TempPathFactory, start_for_all: Start) -> Path:
    """The data directory of a clean stop, with a vGPU configured on its simulated host."""
    path = tmp_path_factory.mktemp("stopped") / "data"
    up = start_for_all("up", *SPEC, "--data-dir", str(path))
    up.until(READY)
    Api(path).wish(enabled=True, vGPUTypeName=PROFILE)
    assert up.end() == 0
    return path


def failure(*arguments: str, status: int = 1, **env: str) -> str:
    """The one line of a command that fails."""
    done = subprocess.run(
        [sys.executable, "-m", "laneway", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
        env=environment(**env),
    )
    assert (done.returncode, done.stdout) == (status, ""), done
    assert done.stderr.startswith("laneway: "), done.stderr
    [line] = done.stderr.splitlines()
    return line


def contents(directory: Path) -> dict[str, str]:
    """Digests of all files but the lock, which carries the process id of its last owner."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


# A person at the machine


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
def test_wish_is_carried_out_and_taken_back_and_an_impossible_one_says_why(
    kubectl: Callable[..., str],
    api: Api,
) -> None:
    def patch(spec: dict[str, Any]) -> None:
        kubectl("patch", "vgpudevice", VGPU, "--type", "merge", "-p", json.dumps({"spec": spec}))

    def wait(condition: str) -> None:
        kubectl("wait", f"--for={condition}", f"vgpudevice/{VGPU}", f"--timeout={SECONDS:g}s")

    def read(path: str) -> str:
        return kubectl("get", "vgpudevice", VGPU, "-o", f"jsonpath={{{path}}}")

    def offered(vgpu: Any) -> set[str]:
        types = vgpu["status"].get("availableTypes", {})
        return {name.removeprefix("NVIDIA A2-") for name in types}

    sibling = "sim-a2-1-000008005"
    patch({"enabled": True, "vGPUTypeName": PROFILE})
    wait("condition=Ready")
    assert read(".status.configureVGPUTypeName") == PROFILE
    assert read(".status.vGPUStatus") == "vGPUConfigured"
    assert len(read(".status.uuid")) == 36
    # One card carries vGPUs of one size.
    api.until("vgpudevices", sibling, lambda vgpu: offered(vgpu) == {"4A", "4C", "4Q"})

    patch({"enabled": False})
    wait("condition=Ready")
    assert (read(".status.uuid"), read(".status.vGPUStatus")) == ("", "")
    api.until("vgpudevices", sibling, lambda vgpu: "16Q" in offered(vgpu))

    patch({"enabled": True, "vGPUTypeName": "NVIDIA A2-3Q"})
    wait("condition=Ready=false")
    assert read(".status.conditions[?(@.type=='Ready')].reason") == "ProfileUnknown"
    assert "NVIDIA A2-3Q" in kubectl("describe", "vgpudevice", VGPU)

    patch({"enabled": False, "vGPUTypeName": ""})
    wait("condition=Ready")


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
        api.wish(enabled=False)


def test_second_process_on_the_same_directory_is_sent_away(
    running: Laneway, api: Api, data_dir: Path
) -> None:
    before = api.versions()
    line = failure("up", *SPEC, "--data-dir", str(data_dir))
    assert f"in use by another laneway (process {running.process.pid})" in line
    assert api.versions() == before


def test_port_in_use_is_said(running: Laneway, api: Api, tmp_path: Path) -> None:
    port = api.url.rpartition(":")[2]
    arguments = ("--no-local", "--simulate", "plain", "--port", port, "--data-dir", str(tmp_path))
    assert f"127.0.0.1:{port} is in use" in failure("up", *arguments)
    assert not (tmp_path / "kubeconfig").exists()


# An end of the process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_is_clean_although_somebody_watches(
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


def test_stop_while_starting_is_clean_and_the_next_start_completes(
    start: Start, tmp_path: Path
) -> None:
    arguments = ("up", *SPEC, "--data-dir", str(tmp_path))
    up = start(*arguments)
    up.until("API server listening")
    assert up.end() == 0
    assert up.lines[-1].startswith("Stopped.")
    start(*arguments).until(READY)


def test_nothing_is_lost_or_written_anew_when_killed(start: Start, tmp_path: Path) -> None:
    arguments = ("up", *SPEC, "--data-dir", str(tmp_path))
    first = start(*arguments)
    first.until(READY)
    made = Api(tmp_path).wish(enabled=True, vGPUTypeName=PROFILE)
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

    # Another set of hosts: what is known of the absent ones stays, and nobody is sent to them.
    plain = ("--no-local", "--simulate", "plain", "--port", "0")
    last = start("up", *plain, "--data-dir", str(tmp_path))
    last.until(READY)
    assert last.until("Known from an earlier run").endswith(": sim-a2-1, sim-a2-2")
    assert "patch vgpudevice" not in last.said
    now = Api(tmp_path).versions()
    assert {key: now[key] for key in settled} == settled


# Bad input


def damage(text: str, content: bytes | None) -> Any:
    return pytest.param(text, content, id=f"{text}-{'gone' if content is None else content[:7]!r}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        damage("laneway.json", b"{"),
        damage("laneway.json", b'{"version": 2}'),
        damage("laneway.json", None),
        damage("state.db", b"garbage" * 3000),
        damage("token", b""),
        damage("token", b"\xff\xfe\x00"),
        damage("pki/ca.crt", b"garbage"),
        damage("pki/ca.key", None),
        damage("pki/server.crt", b"garbage"),
        damage("hosts/sim-a2-1.log", b"garbage\n"),
        damage("hosts/sim-a2-1.log", b'{"format":1,"base":"model l40s"}\n'),
    ],
)
def test_damaged_file_is_named_and_nothing_is_changed(
    stopped_dir: Path, tmp_path: Path, name: str, content: bytes | None
) -> None:
    copy = shutil.copytree(stopped_dir, tmp_path / "data")
    if content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(content)
    before = contents(copy)
    line = failure("up", *SPEC, "--data-dir", str(copy))
    assert str(copy) in line
    if name != "laneway.json":
        assert str(copy / name) in line
    assert contents(copy) == before


def test_truncated_database_is_named_and_not_changed(stopped_dir: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(stopped_dir, tmp_path / "data")
    os.truncate(copy / "state.db", (copy / "state.db").stat().st_size // 2)
    before = contents(copy)
    assert str(copy / "state.db") in failure("up", *SPEC, "--data-dir", str(copy))
    assert contents(copy) == before


def test_what_can_be_made_again_is(stopped_dir: Path, tmp_path: Path, start: Start) -> None:
    copy = shutil.copytree(stopped_dir, tmp_path / "data")
    (copy / "kubeconfig").write_text("a: [")
    (copy / "pki" / "server.crt").unlink()
    with (copy / "hosts" / "sim-a2-1.log").open("a") as log:
        log.write('{"path": "/sys/bus')  # the process was killed while it wrote this
    start("up", *SPEC, "--data-dir", str(copy)).until(READY)
    vgpu = Api(copy).call(f"{DEVICES}/vgpudevices/{VGPU}")
    assert vgpu["status"]["configureVGPUTypeName"] == PROFILE


def test_dump_that_is_cut_off_or_was_changed_is_refused(
    start: Start, tmp_path: Path, a2_dump_path: Path
) -> None:
    dump, kept = tmp_path / "a2.umockdev", tmp_path / "data"
    whole = a2_dump_path.read_text()
    dump.write_text(whole)
    arguments = ("--no-local", "--simulate", str(dump), "--port", "0", "--data-dir", str(kept))
    up = start("up", *arguments)
    up.until(READY)
    assert up.until("  sim-a2-1  ").endswith(f"simulated from {dump}")
    carried = Api(kept).call(f"{DEVICES}/vgpudevices?labelSelector=nodename=sim-a2-1")["items"]
    assert sum(vgpu["spec"]["enabled"] for vgpu in carried) == 3
    assert up.end() == 0

    before = contents(kept)
    dump.write_text(whole[: len(whole) // 2].rstrip("\n"))
    assert dump.name in failure("up", *arguments)
    dump.write_text(whole.replace("A: numa_node=0", "A: numa_node=1"))
    assert str(kept / "hosts" / "sim-a2-1.log") in failure("up", *arguments)
    assert contents(kept) == before


@pytest.mark.parametrize("spec", ["b7", "a2:0", "", "/proc/none/dump"])
def test_wrong_spec_makes_no_directory(tmp_path: Path, spec: str) -> None:
    target = tmp_path / "data"
    line = failure("up", "--no-local", "--simulate", spec, "--data-dir", str(target))
    assert "hgx-h100" in line or "1 to 1000" in line
    assert not target.exists()


def test_directory_that_cannot_be_used_is_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_bytes(b"meow")
    file = tmp_path / "file"
    file.write_text("precious")
    assert "was not made by laneway" in failure("up", *SPEC, "--data-dir", str(foreign))
    assert f"{file}: Not a directory" in failure("up", *SPEC, "--data-dir", str(file))
    assert "/proc/laneway" in failure("up", *SPEC, "--data-dir", "/proc/laneway")
    assert contents(tmp_path).keys() == {"photos/cat.jpg", "file"}
    assert file.read_text() == "precious"


def test_no_place_to_keep_data_is_said() -> None:
    assert "/proc/laneway: " in failure("up", *SPEC, XDG_DATA_HOME="/proc")
    assert "--data-dir" in failure("up", *SPEC, XDG_DATA_HOME="somewhere")


# The agent of a node


def agent_arguments(node: str, data_dir: Path, health: str = "127.0.0.1:0") -> tuple[str, ...]:
    config = str(data_dir / "kubeconfig")
    return ("agent", "--node", node, "--kubeconfig", config, "--health-address", health)


def health_of(agent: Laneway) -> str:
    message = json.loads(agent.until("serving health and metrics"))["message"]
    return f"http://127.0.0.1:{message.rpartition(' ')[2]}"


def ready(obj: Any) -> bool:
    conditions = obj.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_agent_publishes_this_machine(
    running: Laneway, api: Api, data_dir: Path, start: Start
) -> None:
    agent = start(*agent_arguments("here", data_dir))
    agent.until("the devices of node here are published")
    health = health_of(agent)
    assert fetch(f"{health}/healthz") == (200, "ok\n")
    assert fetch(f"{health}/readyz") == (200, "ok\n")
    assert 'laneway_devices{kind="pci",node="here"}' in fetch(f"{health}/metrics")[1]
    assert ready(api.call(f"{DEVICES}/nodes/here"))
    shown = api.call(f"{DEVICES}/pcidevices?labelSelector=nodename=here")["items"]
    assert all(ready(device) for device in shown)
    there = Path("/sys/bus/pci/devices")
    on_machine = {path.name for path in there.iterdir()} if there.is_dir() else set()
    assert {device["status"]["address"] for device in shown} == on_machine
    assert agent.end() == 0


def test_agent_waits_for_its_api_server_and_outlives_it(start: Start, tmp_path: Path) -> None:
    first = start("up", *SPEC, "--data-dir", str(tmp_path))
    first.until(READY)
    api = Api(tmp_path)
    port = api.url.rpartition(":")[2]
    again = ("up", *SPEC[:-1], port, "--data-dir", str(tmp_path))
    first.end(signal.SIGKILL)

    agent = start(*agent_arguments("here", tmp_path))
    agent.until("no answer from")
    health = health_of(agent)
    assert fetch(f"{health}/healthz")[0] == 200
    assert fetch(f"{health}/readyz") == (503, "not ready: here\n")

    second = start(*again)
    second.until(READY)
    agent.until("the devices of node here are published")
    assert fetch(f"{health}/readyz") == (200, "ok\n")
    node = api.until("nodes", "here", ready)
    second.end(signal.SIGKILL)

    start(*again).until(READY)
    api.call(f"{DEVICES}/nodes/here", "DELETE")
    made = api.until("nodes", "here", ready)
    assert made["metadata"]["uid"] != node["metadata"]["uid"]
    assert agent.end(signal.SIGINT) == 0


def test_agent_called_with_what_cannot_work_says_so(
    running: Laneway, data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "kubeconfig").write_text("a: [")
    assert str(tmp_path) in failure(*agent_arguments("here", tmp_path))
    assert "/proc/none" in failure(*agent_arguments("here", Path("/proc/none")))
    assert "'../etc'" in failure(*agent_arguments("../etc", data_dir))
    assert "no cluster is configured" in failure("agent", "--node", "here")
    metrics = running.until("Metrics: ").rpartition("http://")[2].removesuffix("/metrics")
    said = failure(*agent_arguments("here", data_dir, metrics), "--log-level", "error")
    assert f"{metrics.replace(':', ' port ')}: Address already in use" in said
