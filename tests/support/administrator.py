"""An API server as its administrator sees it, for tests without an event loop of their own."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

SECONDS = 60.0
_ABSENT = (404, 409)


class Administrator:
    """Requests with the token of a kubeconfig."""

    def __init__(self, kubeconfig: str) -> None:
        config = yaml.safe_load(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self._url, self._token = cluster["server"], user["token"]

    def call(
        self, path: str, method: str = "GET", body: Any = None, kind: str = "application/json"
    ) -> Any:
        """The answer; None where there is no such thing, or one already."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS, context=self._tls) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in _ABSENT:
                    return None
                raise AssertionError(error.read()) from error

    def apply(self, obj: dict[str, Any]) -> Any:
        """What the server would make of an object."""
        version, metadata = obj["apiVersion"], obj["metadata"]
        root = f"/{'apis' if '/' in version else 'api'}/{version}"
        kinds = self.call(root)["resources"]
        (plural,) = (k["name"] for k in kinds if k["kind"] == obj["kind"] and "/" not in k["name"])
        if "namespace" in metadata:
            root += f"/namespaces/{metadata['namespace']}"
        path = f"{root}/{plural}/{metadata['name']}?dryRun=All&fieldManager=test&force=true"
        return self.call(path, "PATCH", obj, "application/apply-patch+yaml")

    def until(self, path: str) -> Any:
        """Ask until there is something; what the server does by itself it announces nowhere."""
        deadline = time.monotonic() + SECONDS
        while (found := self.call(path)) is None:
            assert time.monotonic() < deadline, path
            time.sleep(0.05)
        return found
