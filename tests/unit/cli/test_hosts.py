"""`laneway hosts list` where something that is stored cannot be read."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.in_process import command

GOOD = {
    "metadata": {"name": "n1"},
    "spec": {"policies": ["gpus"], "rollout": {"stage": "Draining", "message": "Pods end."}},
}
BAD = {"metadata": {"name": "n2"}, "spec": {"iommu": "perhaps"}}


class _Api(BaseHTTPRequestHandler):
    """An API server that stores two HostPreparations."""

    def do_GET(self) -> None:
        body = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [GOOD, BAD]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "config"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Api) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        path.write_text(
            "current-context: c\ncontexts: [{name: c, context: {cluster: c}}]\n"
            f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{server.server_port}'}}}}]"
        )
        yield str(path)
        server.shutdown()
        serving.join()


def test_one_that_cannot_be_read_hides_no_other(kubeconfig: str) -> None:
    done = command("hosts", "list", KUBECONFIG=kubeconfig)
    assert done.returncode == 0
    assert "n1    Draining  Pods end." in done.stdout
    assert "warning: HostPreparation n2: Expected `bool`" in done.stderr


def test_a_node_that_cannot_be_read_is_not_said_to_be_selected_by_no_policy(
    kubeconfig: str,
) -> None:
    done = command("hosts", "list", "n2", KUBECONFIG=kubeconfig)
    assert done.returncode == 1
    assert "HostPreparation n2: Expected `bool`" in done.stderr
    assert "no HostPolicy selects" not in done.stderr
    assert "Pods end." in command("hosts", "list", "n1", KUBECONFIG=kubeconfig).stdout
