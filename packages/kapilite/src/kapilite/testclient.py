"""What a test is given of its cluster: where it is, by what it is reached, and plain requests."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kapilite.manifests import Manifest, documents

SECONDS = 60.0
_APPLY = "application/apply-patch+yaml"
_PATCHES = {"PATCH": "application/merge-patch+json"}


class RequestError(Exception):
    """The server refused a request."""

    def __init__(self, code: int, status: Any) -> None:
        super().__init__(status.get("message") if isinstance(status, dict) else status)
        self.code = code
        self.status = status
        """The Status that the server answered."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that runs."""

    url: str
    kubeconfig: str
    """The path of a kubeconfig, for kubectl and client libraries."""
    ca_file: str
    """The path of the certificate that the server is known by."""
    token: str = field(repr=False)
    """The administrator's; not for the logs of failed tests."""
    _contents: Callable[[], bytes] = field(repr=False, compare=False)

    @property
    def headers(self) -> dict[str, str]:
        """What every request of the administrator must have."""
        return {"Authorization": f"Bearer {self.token}"}

    def ssl_context(self) -> ssl.SSLContext:
        """For clients that take one: it trusts this server alone."""
        return ssl.create_default_context(cafile=self.ca_file)

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "", **query: str
    ) -> Any:
        """What the server answers. Raises RequestError. A PATCH is a merge patch if not told."""
        kind = content_type or _PATCHES.get(method, "application/json")
        url = f"{self.url}{path}"
        if query:
            url += f"?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(  # noqa: S310 - always https
            url,
            None if body is None else msgspec.json.encode(body),
            self.headers | {"Content-Type": kind},
            method=method,
        )
        try:
            with urllib.request.urlopen(  # noqa: S310 - as above
                request, timeout=SECONDS, context=self.ssl_context()
            ) as answer:
                return _decoded(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                raise RequestError(error.code, _decoded(error.read())) from None

    def apply(self, *manifests: Manifest) -> list[Any]:
        """Apply files, folders or objects, definitions first; what is stored of each.

        Objects without a namespace go into `default`. Raises RequestError and ManifestError.
        """
        return [self._apply(one) for one in documents(manifests)]

    def contents(self) -> bytes:
        """All that is stored now, for `Clusters.start`."""
        return self._contents()

    def _apply(self, obj: Mapping[str, Any]) -> Any:
        group = "/apis" if "/" in obj["apiVersion"] else "/api"
        root = f"{group}/{obj['apiVersion']}"
        served = self.request("GET", root)["resources"]
        kinds = (one for one in served if one["kind"] == obj["kind"] and "/" not in one["name"])
        if (kind := next(kinds, None)) is None:
            raise RequestError(404, f"{obj['apiVersion']} has no kind {obj['kind']}")
        meta = obj["metadata"]
        if kind["namespaced"]:
            root += f"/namespaces/{meta.get('namespace', 'default')}"
        path = f"{root}/{kind['name']}/{meta['name']}"
        return self.request(
            "PATCH", path, obj, content_type=_APPLY, fieldManager="kapilite", force="true"
        )


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode(errors="replace")
