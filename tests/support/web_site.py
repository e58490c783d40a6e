"""The web interface of a `laneway up`, the API server behind it, and accounts that sign in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

from support.processes import READY, Api, Laneway

ONCE = "/sign-in/once/"
RBAC = "rbac.authorization.k8s.io"
DEVICES = "devices.harvesterhci.io"
READ = ("get", "list", "watch")

Rule = dict[str, list[str]]


def rule(group: str, resources: Sequence[str], verbs: Sequence[str] = READ) -> Rule:
    """A right, as a role has it."""
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}


class WebSite:
    """All of Laneway with simulated hosts, in a process of its own."""

    def __init__(self, data_dir: Path, models: Sequence[str]) -> None:
        hosts = [argument for model in models for argument in ("--simulate", model)]
        arguments = [
            "--no-local",
            *hosts,
            "--port",
            "0",
            "--ui-port",
            "0",
            "--data-dir",
            str(data_dir),
        ]
        self.process = Laneway("up", *arguments)
        self.process.until(READY)
        self.once = self.process.until(ONCE).strip()
        """The address that signs the administrator in, once."""
        parts = urlsplit(self.once)
        self.address = f"{parts.scheme}://{parts.netloc}"
        self.api = Api(data_dir)

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
