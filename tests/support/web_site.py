"""The web interface, the API server behind it, and accounts that sign in there."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import yaml

from support.processes import READY, Api, Laneway

ONCE = "/sign-in/once/"
ANSWERS = "the web interface answers on 127.0.0.1 port "
RBAC = "rbac.authorization.k8s.io"
DEVICES = "devices.harvesterhci.io"
READ = ("get", "list", "watch")

Rule = dict[str, list[str]]


def rule(group: str, resources: Sequence[str], verbs: Sequence[str] = READ) -> Rule:
    """A right, as a role has it."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


class WebSite:
    """An address for browsers, and its API server as an administrator sees it."""

    def __init__(self, address: str, data_dir: Path) -> None:
        self.address = address
        self.api = Api(data_dir)
        config = yaml.safe_load((data_dir / "kubeconfig").read_text())
        self.administrator: str = config["users"][0]["user"]["token"]

    def account(self, name: str, *rules: Rule, namespace: str = "") -> str:
        """The token of a new account with these rights, of the cluster or of one namespace."""
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        self.make(accounts, {"apiVersion": "v1", "kind": "ServiceAccount"}, name)
        self.grant(name, *rules, namespace=namespace)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.api.call(f"{accounts}/{name}/token", "POST", request)["status"]["token"])

    def grant(self, name: str, *rules: Rule, namespace: str = "") -> None:
        """Further rights for an account."""
        kind = "Role" if namespace else "ClusterRole"
        root = f"/apis/{RBAC}/v1" + (f"/namespaces/{namespace}" if namespace else "")
        head = {"apiVersion": f"{RBAC}/v1"}
        self.make(f"{root}/{kind.lower()}s", {**head, "kind": kind, "rules": list(rules)}, name)
        binding = {
            "kind": f"{kind}Binding",
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
        }
        self.make(f"{root}/{kind.lower()}bindings", {**head, **binding}, name)

    def make(self, path: str, body: dict[str, Any], name: str) -> None:
        """Create an object; one of this name that is there already stays."""
        metadata = {**body.get("metadata", {}), "name": name}
        try:
            self.api.call(path, "POST", {**body, "metadata": metadata})
        except HTTPError as error:
            with error:
                if error.code != 409:
                    raise AssertionError(error.read().decode()) from error


class SimulatedSite(WebSite):
    """`laneway up` with simulated hosts."""

    def __init__(self, data_dir: Path, models: Sequence[str], *more: str) -> None:
        """`more`: further arguments."""
        self.data_dir = data_dir
        hosts = [argument for model in models for argument in ("--simulate", model)]
        ports = ("--port", "0", "--ui-port", "0")
        self._up = Laneway("up", "--no-local", *hosts, *ports, *more, "--data-dir", str(data_dir))
        with contextlib.ExitStack() as started:
            started.callback(self.end)
            self._up.until(READY)
            self.once = self._up.until(ONCE).strip()
            """The address that signs the administrator in, once."""
            parts = urlsplit(self.once)
            super().__init__(f"{parts.scheme}://{parts.netloc}", data_dir)
            started.pop_all()

    def end(self) -> None:
        self._up.end(signal.SIGKILL)


class SeparateSite(WebSite):
    """`laneway ui` on an API server that can be stopped, with objects on which nothing acts."""

    def __init__(self, data_dir: Path, fill: Callable[[Path], None], *more: str) -> None:
        """`fill` makes the objects, with the kubeconfig. `more`: further arguments of the UI."""
        self._data_dir = data_dir
        kubeconfig = data_dir / "kubeconfig"
        ports = ("--address", "127.0.0.1:0", "--health-address", "127.0.0.1:0")
        with contextlib.ExitStack() as started:
            self._server = self._serve(0)
            started.callback(self._server.end, signal.SIGKILL)
            fill(kubeconfig)
            reach = ("--kubeconfig", str(kubeconfig), "--log-level", "info")
            self._ui = Laneway("ui", *ports, *reach, *more)
            started.callback(self._ui.end, signal.SIGKILL)
            port = self._ui.until(ANSWERS).partition(ANSWERS)[2].rstrip('"}')
            super().__init__(f"http://127.0.0.1:{port}", data_dir)
            started.pop_all()

    def _serve(self, port: int) -> Laneway:
        arguments = ("serve", "--port", str(port), "--data-dir", str(self._data_dir))
        server = Laneway(*arguments, program=("-m", "kapilite"))
        server.until(READY)
        return server

    def stop_server(self) -> None:
        self._server.end(signal.SIGKILL)

    def start_server(self) -> None:
        """On the same port, with what it had."""
        self._server = self._serve(urlsplit(self.api.url).port or 0)

    def end(self) -> None:
        self._ui.end(signal.SIGKILL)
        self._server.end(signal.SIGKILL)
