"""`laneway agent` as a process, with an API server that comes and goes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.processes import DEVICES, READY, SPEC, Api, Laneway, failure, fetch

Start = Callable[..., Laneway]


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
    # As its kubelet would: what agents write of nodes that a cluster lacks is removed.
    api.call("/api/v1/nodes", "POST", {"metadata": {"name": "here"}})
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


@pytest.mark.slow
def test_an_agent_of_a_simulated_host_tries_laneway_on_a_cluster(
    running: Laneway, api: Api, data_dir: Path, start: Start, tmp_path: Path
) -> None:
    api.call("/api/v1/nodes", "POST", {"metadata": {"name": "there"}})
    kept = ("--simulate", "a2", "--state-dir", str(tmp_path / "state"))
    agent = start(*agent_arguments("there", data_dir), *kept)
    agent.until("the devices of node there are published")
    gpus = f"{DEVICES}/sriovgpudevices?labelSelector=nodename=there"
    (gpu,) = api.call(gpus)["items"]
    assert ready(gpu)
    assert agent.end() == 0
    again = start(*agent_arguments("there", data_dir), *kept)
    again.until("the devices of node there are published")
    assert [one["metadata"]["uid"] for one in api.call(gpus)["items"]] == [gpu["metadata"]["uid"]]
    assert again.end() == 0


@pytest.mark.slow
def test_agent_waits_for_its_api_server_and_outlives_it(
    start: Start, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    up = ("up", *SPEC[:-1], str(free_port()), "--data-dir", str(tmp_path))
    first = start(*up)
    first.until(READY)
    api = Api(tmp_path)
    first.end(signal.SIGKILL)

    agent = start(*agent_arguments("here", tmp_path))
    agent.until("no answer from")
    health = health_of(agent)
    assert fetch(f"{health}/healthz")[0] == 200
    assert fetch(f"{health}/readyz") == (503, "not ready: here\n")

    second = start(*up)
    second.until(READY)
    agent.until("the devices of node here are published")
    assert fetch(f"{health}/readyz") == (200, "ok\n")
    node = api.until("nodes", "here", ready)
    second.end(signal.SIGKILL)

    start(*up).until(READY)
    api.call(f"{DEVICES}/nodes/here", "DELETE")
    made = api.until("nodes", "here", ready)
    assert made["metadata"]["uid"] != node["metadata"]["uid"]
    assert agent.end(signal.SIGINT) == 0


@pytest.mark.slow
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
