"""The webhook on one VM: it runs next to the API server and is registered by its URL.

What it is asked about is what the manifests say; only where it is and how long it may take differ.
The address is another in every run, and the configurations would outlive the process in the
database: so a start takes away first what a run before left, for which no server would answer.
A webhook that stops takes them away itself, before it stops answering.

It may take long, because everything shares one event loop: a hundred hosts that publish at once
are slow, and not broken.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from importlib.resources import files
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from kubebasics import yaml_text
from laneway.admission.caches import AdmissionCaches
from laneway.api import ObjectMeta
from laneway.core.tracing import Tracer
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, NotFoundError
from laneway.kube.resource import Resource
from laneway.roles.webhook import Webhook, trusted

log = logging.getLogger(__name__)

ACCOUNT = "laneway-webhook"
"""The service account that it asks as."""
HOST = "127.0.0.1"
ANSWER_SECONDS = 30
"""As long as Kubernetes lets any webhook take."""


class _Configuration(msgspec.Struct, frozen=True):
    """As far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()


_GROUP, _VERSION = "admissionregistration.k8s.io", "v1"
_RESOURCES = {
    kind: Resource(_GROUP, _VERSION, f"{kind.lower()}s", False, _Configuration, kind)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


@contextlib.asynccontextmanager
async def admission(
    client: Client,
    registry: CollectorRegistry,
    namespace: str,
    *,
    cert_file: str,
    key_file: str,
    ca_pem: bytes,
    tracer: Tracer | None = None,
) -> AsyncIterator[Webhook]:
    """Have writes reviewed until the block ends; it begins once they are.

    The certificate must be good for the loopback address, and issued by the authority.
    """
    caches = AdmissionCaches.of(client, trusted(namespace))
    webhook = Webhook(
        client,
        registry,
        caches,
        cert_file=cert_file,
        key_file=key_file,
        host=HOST,
        port=0,
        tracer=tracer,
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(webhook.run(), name="webhook")
        try:
            await webhook.ready.wait()
            await _register(client, f"https://{HOST}:{webhook.port}", ca_pem)
            yield webhook
        finally:
            try:
                await unregister(client)
            except KubeError as error:
                log.warning("the webhook's configurations are not changed: %s", error)
            running.cancel()


async def unregister(client: Client) -> None:
    """Take the configurations away, if they are there. Raises KubeError."""
    for config in _configurations():
        with contextlib.suppress(NotFoundError):
            await client.delete(_RESOURCES[config["kind"]], config["metadata"]["name"])


async def _register(client: Client, url: str, ca_pem: bytes) -> None:
    bundle = base64.b64encode(ca_pem).decode()
    for config in _configurations():
        for webhook in config["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            webhook["clientConfig"] = {"url": url + path, "caBundle": bundle}
            webhook["timeoutSeconds"] = ANSWER_SECONDS
        await client.create(_RESOURCES[config["kind"]], config)


def _configurations() -> Iterator[dict[str, Any]]:
    """Those of the manifests; the rest of them takes too long to read for nothing."""
    text = files("laneway").joinpath("data/manifests.yaml").read_text(encoding="utf-8")
    for document in text.split("\n---\n"):
        if "WebhookConfiguration" in document:
            found = yaml_text.read(document)
            if found["kind"] in _RESOURCES:
                yield found
