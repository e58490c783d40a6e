"""Makes the webhook's certificate, changes it in time, and tells the API server whom to trust.

`core.certificates.rotation` decides; this looks and writes. What is looked at is one Secret and two
webhook configurations, by name, and only while this manager leads: one that stands by holds no key.
Each write is on condition that it has not changed, and the decision is made again after each. The
configurations are made by Laneway's installation; here only their bundles are kept right, and of
one that cert-manager keeps, nothing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from laneway.api import ObjectMeta
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.core.certificates.rotation import Change, Seen, decide
from laneway.kube.client import Client, PatchType
from laneway.kube.controller import Retry
from laneway.kube.errors import AlreadyExistsError, ConflictError, InvalidError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.resource import Resource, T

log = logging.getLogger(__name__)

SECRET = "laneway-webhook-tls"  # noqa: S105 - a name
SERVICE = "laneway-webhook"
CONFIGURATIONS = {
    "MutatingWebhookConfiguration": "laneway-mutator",
    "ValidatingWebhookConfiguration": "laneway-validator",
}
INJECTED = ("cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret")
"""By these annotations cert-manager keeps a configuration's bundle."""

LOOK_AGAIN = timedelta(minutes=5)
"""At the latest; a clock may be set in between."""
TOO_LATE_SECONDS = 1.0
_KEY = "certificate"
"""There is one thing to look at."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object."""


class Secret(_Part, frozen=True, kw_only=True):
    """A Secret. Its data is never shown."""

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name})"


class ClientConfig(_Part, frozen=True, kw_only=True):
    """Whom the API server trusts to be the webhook."""

    ca_bundle: str = ""


class Hook(_Part, frozen=True, kw_only=True):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()


class Configuration(_Part, frozen=True, kw_only=True):
    """A webhook configuration of either kind."""

    metadata: ObjectMeta = ObjectMeta()
    webhooks: Sequence[Hook] = ()


SECRETS = Resource("", "v1", "secrets", True, Secret)
_KINDS = {
    kind: Resource(
        "admissionregistration.k8s.io", "v1", f"{kind.lower()}s", False, Configuration, kind
    )
    for kind in CONFIGURATIONS
}


def _now() -> datetime:
    return datetime.now(UTC)


class WebhookCertificates(Leading[str]):
    """The one who keeps the Secret and the bundles."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        metrics: ManagerMetrics,
        recorder: EventRecorder,
        *,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        super().__init__()
        self._client = client
        self._namespace = namespace
        self._names = [f"{SERVICE}.{namespace}.svc"]
        self._metrics = metrics
        self._recorder = recorder
        self._clock = clock
        self._secrets = self._secret_informer()
        self._configurations: dict[str, Informer[Configuration]] = {}
        self._seen: Seen | None = None
        self._left_alone: set[str] = set()

    def everything(self) -> Iterable[str]:
        return [_KEY]

    async def run(self) -> None:
        """Lead until cancelled; nothing is remembered from before."""
        self._seen = None
        self._secrets = self._secret_informer()
        self._configurations = {
            kind: self._informer(_KINDS[kind], name) for kind, name in CONFIGURATIONS.items()
        }
        self.needs = (self._secrets, *self._configurations.values())
        async with asyncio.TaskGroup() as tasks:
            for informer in self.needs:
                informer.subscribe(lambda *_: self.ask(self.everything()))
                tasks.create_task(informer.run())
            tasks.create_task(super().run())

    def _secret_informer(self) -> Informer[Secret]:
        return self._informer(SECRETS, SECRET, self._namespace)

    def _informer(self, resource: Resource[T], name: str, namespace: str = "") -> Informer[T]:
        return Informer(self._client, resource, namespace, field_selector=f"metadata.name={name}")

    async def reconcile(self, _key: str) -> Retry | None:
        """Take the next step, if it is time for one."""
        secret = self._secrets.store.get(SECRET, self._namespace)
        found = self._found()
        seen, now = self._looked(secret, found), self._clock()
        decision = decide(seen, self._names, now)
        try:
            if decision.change is not None:
                await self._write(secret, decision.change)
                return Retry(TOO_LATE_SECONDS)
            for kind, configuration in found.items():
                await self._tell(kind, configuration, decision.bundle)
        except (AlreadyExistsError, ConflictError, NotFoundError, InvalidError) as error:
            log.info("another client changed it first: %s", error)
            return Retry(TOO_LATE_SECONDS)
        left = min(decision.look_again - now, LOOK_AGAIN)
        return Retry(max(left.total_seconds(), TOO_LATE_SECONDS))

    def _found(self) -> dict[str, Configuration]:
        """The configurations that are there and ours to keep, by kind."""
        found = {}
        for kind, informer in self._configurations.items():
            configuration = informer.store.get(CONFIGURATIONS[kind])
            if configuration is None:
                continue
            if not any(key in configuration.metadata.annotations for key in INJECTED):
                found[kind] = configuration
                self._left_alone.discard(kind)
            elif kind not in self._left_alone:
                self._left_alone.add(kind)
                log.warning(
                    "%s %s is annotated for cert-manager, so its bundle is not changed: run "
                    "managers with --webhook-certificates cert-manager, or remove the annotation",
                    kind,
                    configuration.metadata.name,
                )
        return found

    def _looked(self, secret: Secret | None, found: Mapping[str, Configuration]) -> Seen:
        """What there is, and since when."""
        now = self._clock()
        data = None if secret is None else {k: _decoded(v) for k, v in secret.data.items()}
        bundles = [
            _decoded(hook.client_config.ca_bundle)
            for kind in found
            for hook in found[kind].webhooks
        ]
        before = self._seen
        same = before is not None and before.data == data and before.bundles == bundles
        since = min(before.since, now) if before is not None and same else now
        self._seen = Seen(data, bundles, since)
        return self._seen

    async def _write(self, secret: Secret | None, change: Change) -> None:
        data = {
            name: None if value is None else base64.b64encode(value).decode()
            for name, value in change.data.items()
        }
        if secret is None:
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": SECRET, "namespace": self._namespace},
                "type": "Opaque",
                "data": {name: value for name, value in data.items() if value is not None},
            }
            written = await self._client.create(SECRETS, body, self._namespace)
        else:
            metadata = {"resourceVersion": secret.metadata.resource_version}
            written = await self._client.patch(
                SECRETS, SECRET, {"metadata": metadata, "data": data}, self._namespace
            )
        self._metrics.wrote("create" if secret is None else "patch", "Secret")
        log.info("Secret %s/%s: %s", self._namespace, SECRET, change.words)
        self._recorder.record(SECRETS.ref(written), change.step, change.words)

    async def _tell(self, kind: str, configuration: Configuration, bundle: bytes) -> None:
        """Have the API server trust these authorities only."""
        wanted = base64.b64encode(bundle).decode()
        operations: list[dict[str, str]] = []
        for number, hook in enumerate(configuration.webhooks):
            if hook.client_config.ca_bundle != wanted:
                at = f"/webhooks/{number}"
                # The list may have changed: the place must still be that of the same webhook.
                operations += [
                    {"op": "test", "path": f"{at}/name", "value": hook.name},
                    {"op": "add", "path": f"{at}/clientConfig/caBundle", "value": wanted},
                ]
        if not operations:
            return
        name = configuration.metadata.name
        await self._client.patch(_KINDS[kind], name, operations, patch_type=PatchType.JSON)
        self._metrics.wrote("patch", kind)
        log.info("%s %s: changed the trusted authorities", kind, name)


def _decoded(text: str) -> bytes:
    """What is no base64 counts as damaged, as anything else that is unreadable."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b"?"
