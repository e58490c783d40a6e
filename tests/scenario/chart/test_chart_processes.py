"""What the chart starts runs: two managers and two webhooks, with the arguments of their pods.

The paths and addresses of a pod are those of this machine; all else is as the chart says. The agent
writes to the hardware of the machine that it is on, so it is not started here.
"""

from __future__ import annotations

import base64
import contextlib
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.administrator import SECONDS, Administrator
from support.chart import MANAGEMENT, NAMESPACE, Object, find, render
from support.processes import Laneway

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/laneway-webhook-tls"


def until(holds: Callable[[], Any], what: str) -> Any:
    """Ask until the answer is true: processes announce nothing."""
    deadline = time.monotonic() + SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def metric(port: int, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


class Pods:
    """Processes in the place of the chart's pods."""

    def __init__(
        self,
        objects: list[Object],
        kubeconfig: str,
        folder: Path,
        free_port: Callable[[], int],
    ) -> None:
        self._objects, self._kubeconfig, self._folder = objects, kubeconfig, folder
        self._free_port = free_port
        self.running: list[Laneway] = []

    def start(self, component: str) -> tuple[Laneway, int]:
        """One more pod of a Deployment; where it tells its health."""
        template = find(self._objects, "Deployment", f"laneway-{component}")["spec"]["template"]
        (container,) = template["spec"]["containers"]
        arguments = [_moved(argument, self._folder) for argument in container["args"]]
        port = self._free_port()
        more = [f"--health-address=127.0.0.1:{port}", f"--kubeconfig={self._kubeconfig}"]
        if component in ("webhook", "pools-webhook", "ui"):
            more.append(f"--address=127.0.0.1:{self._free_port()}")
        process = Laneway(*arguments, *more)
        self.running.append(process)
        return process, port


def _moved(argument: str, folder: Path) -> str:
    """A file of the pod's volume is in a folder of the test."""
    name, mark, value = argument.partition("=")
    return f"{name}={folder}{value}" if mark and value.startswith("/") else argument


@pytest.fixture
def pods(kubeconfig: str, tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Pods]:
    found = Pods(render(), kubeconfig, tmp_path, free_port)
    try:
        yield found
    finally:
        for process in found.running:
            if process.process.poll() is None:
                process.end()


@pytest.mark.slow
def test_two_managers_and_two_webhooks_start_and_end(
    pods: Pods, kubeconfig: str, tmp_path: Path
) -> None:
    api = Administrator(kubeconfig)
    api.call("/api/v1/namespaces", "POST", _namespace())
    for found in render():
        if found["kind"].endswith("WebhookConfiguration"):
            api.call(_configuration(found["kind"]), "POST", found)

    managers = [pods.start("manager") for _ in range(2)]
    for process, port in managers:
        until(lambda port=port: ready(port), process.said)  # type: ignore[misc]
    until(
        lambda: sum(metric(port, "laneway_manager_leading") for _, port in managers) == 1,
        "one manager leads",
    )
    secret = until(lambda: api.call(SECRET), "the manager makes the certificate")
    folder = tmp_path / "tls"
    folder.mkdir()
    for name in ("tls.crt", "tls.key"):
        (folder / name).write_bytes(base64.b64decode(secret["data"][name]))

    webhooks = [pods.start("webhook") for _ in range(2)]
    for process, port in webhooks:
        until(lambda port=port: ready(port), process.said)  # type: ignore[misc]

    for process, _ in (*webhooks, *managers):
        process.process.terminate()
    for process, _ in (*webhooks, *managers):
        assert process.ended() == 0, process.said
        assert "Traceback" not in process.said
    for kind, name in (
        ("MutatingWebhookConfiguration", "laneway-mutator"),
        ("ValidatingWebhookConfiguration", "laneway-validator"),
    ):
        kept = api.call(f"{_configuration(kind)}/{name}")
        assert all(webhook["clientConfig"]["caBundle"] for webhook in kept["webhooks"])


@pytest.mark.slow
def test_a_webhook_waits_for_its_certificate(pods: Pods, kubeconfig: str) -> None:
    api = Administrator(kubeconfig)
    api.call("/api/v1/namespaces", "POST", _namespace())

    process, port = pods.start("webhook")

    until(lambda: _answers(port), process.said)
    assert not ready(port)
    assert process.end() == 0


@pytest.mark.slow
def test_the_webhook_for_machine_pools_starts_without_harvester_and_ends(
    kubeconfig: str, tmp_path: Path, free_port: Callable[[], int]
) -> None:
    objects = render(MANAGEMENT)
    process, port = Pods(objects, kubeconfig, tmp_path, free_port).start("pools-webhook")
    try:
        until(lambda: _answers(port), process.said)
        assert not ready(port)
        secret = find(objects, "Secret", "laneway-pools-webhook-tls")
        (tmp_path / "tls").mkdir()
        for name in ("tls.crt", "tls.key"):
            (tmp_path / "tls" / name).write_bytes(base64.b64decode(secret["data"][name]))
        until(lambda: ready(port), process.said)
        (tmp_path / "harvester").mkdir()
        (tmp_path / "harvester" / "default").write_text("{")
        process.until("its kubeconfig cannot be used")
    finally:
        assert process.end() == 0
    assert "Traceback" not in process.said


def _answers(port: int) -> bool:
    address = f"http://127.0.0.1:{port}/healthz"
    with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=SECONDS):
        return True
    return False


def _namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def _configuration(kind: str) -> str:
    return f"/apis/admissionregistration.k8s.io/v1/{kind.lower()}s"
