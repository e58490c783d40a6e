"""Objects of a cluster as far as its doctor reads them, and how they are read.

A person who asks may not be allowed everything. What may not be listed, and what cannot be read, is
reported, and never taken for what is not there (`Asking.saw`); kinds that the cluster does not have
have no objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from laneway.api import Condition, ObjectMeta
from laneway.core.doctor.cluster_facts import Unreadable
from laneway.core.raw import JsonObject
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, NotFoundError
from laneway.kube.resource import KubeObject, Resource, T


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object."""


class Container(_Part, frozen=True, kw_only=True):
    """A container of a workload."""

    image: str = ""


class PodTemplateSpec(_Part, frozen=True, kw_only=True):
    """What its pods are."""

    containers: Sequence[Container] = ()
    node_selector: Mapping[str, str] | None = None


class PodTemplate(_Part, frozen=True, kw_only=True):
    """What its pods look like."""

    spec: PodTemplateSpec = PodTemplateSpec()


class Selector(_Part, frozen=True, kw_only=True):
    """Which pods are its own."""

    match_labels: Mapping[str, str] = {}


class WorkloadSpec(_Part, frozen=True, kw_only=True):
    """The desired state."""

    replicas: int | None = None
    selector: Selector = Selector()
    template: PodTemplate = PodTemplate()


class WorkloadStatus(_Part, frozen=True, kw_only=True):
    """How far it is; of a DaemonSet, and of a Deployment."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    number_ready: int = 0
    replicas: int = 0
    ready_replicas: int = 0


class WorkloadObject(_Part, frozen=True, kw_only=True):
    """A DaemonSet or a Deployment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class Reference(_Part, frozen=True, kw_only=True):
    """The service of a webhook."""

    namespace: str = ""
    name: str = ""


class ClientConfig(_Part, frozen=True, kw_only=True):
    """How the API server reaches a webhook."""

    url: str = ""
    ca_bundle: str = ""
    service: Reference | None = None


class Rule(_Part, frozen=True, kw_only=True):
    """What it is asked about."""

    api_groups: Sequence[str] = ()
    resources: Sequence[str] = ()


class Webhook(_Part, frozen=True, kw_only=True):
    """One webhook."""

    name: str = ""
    failure_policy: str = ""
    client_config: ClientConfig = ClientConfig()
    rules: Sequence[Rule] = ()


class WebhookConfiguration(_Part, frozen=True, kw_only=True):
    """A MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""

    metadata: ObjectMeta = ObjectMeta()
    webhooks: Sequence[Webhook] = ()


class Named(_Part, frozen=True, kw_only=True):
    """Any object, by its metadata."""

    metadata: ObjectMeta = ObjectMeta()


class Plain(_Part, frozen=True, kw_only=True):
    """Any object that is read as it is."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}
    status: JsonObject = {}


class SecretObject(_Part, frozen=True, kw_only=True):
    """A Secret: base64 by key."""

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = {}


class ConditionedStatus(_Part, frozen=True, kw_only=True):
    """What an agent says of an object of ours."""

    node_name: str = ""
    conditions: Sequence[Condition] = ()


class ConditionedSpec(_Part, frozen=True, kw_only=True):
    """Which node an object of ours is on."""

    node_name: str = ""


class Conditioned(_Part, frozen=True, kw_only=True):
    """Any object of ours."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ConditionedSpec = ConditionedSpec()
    status: ConditionedStatus = ConditionedStatus()


DAEMON_SETS = Resource("apps", "v1", "daemonsets", True, WorkloadObject, "DaemonSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", True, WorkloadObject, "Deployment")
MUTATING = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    False,
    WebhookConfiguration,
    "MutatingWebhookConfiguration",
)
VALIDATING = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    False,
    WebhookConfiguration,
    "ValidatingWebhookConfiguration",
)
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    False,
    Plain,
    "CustomResourceDefinition",
)
SERVICES = Resource("", "v1", "services", True, Named, "Service")
SECRETS = Resource("", "v1", "secrets", True, SecretObject, "Secret")
ADDONS = Resource("harvesterhci.io", "v1beta1", "addons", True, Plain, "Addon")
KUBEVIRTS = Resource("kubevirt.io", "v1", "kubevirts", True, Plain, "KubeVirt")


class Asking:
    """Requests objects; owns the list of what could not be seen."""

    def __init__(self, client: Client, *, insisting: bool = False) -> None:
        """`insisting`: what may not be seen raises ForbiddenError instead."""
        self.client = client
        self.unknown: list[str] = []
        """What may not be seen, a sentence each."""
        self.unreadable: list[Unreadable] = []
        self._insisting = insisting
        self._unseen: set[str] = set()
        self._forbidden: set[str] = set()

    def saw(self, *resources: Resource[KubeObject]) -> bool:
        """Whether everything that was requested of these could be seen: the rest is not there."""
        return self._unseen.isdisjoint(map(str, resources))

    def may_see(self, *resources: Resource[KubeObject]) -> bool:
        """Whether everything that was requested of these may be seen."""
        return self._forbidden.isdisjoint(map(str, resources))

    async def all(
        self, resource: Resource[T], namespace: str = "", *, label_selector: str = ""
    ) -> list[T]:
        """All that may be listed and can be read."""
        found = []
        pages = self.client.list(resource, namespace, label_selector=label_selector)
        try:
            async for page in pages:
                for item in page.items:
                    try:
                        found.append(resource.decode(item))
                    except ValueError as error:
                        self._unseen.add(str(resource))
                        self.unreadable.append(_unreadable(resource, item, str(error)))
        except ForbiddenError:
            if self._insisting:
                raise
            self._miss(resource, f"you may not list {resource}")
        except NotFoundError:
            return []
        return found

    async def one(self, resource: Resource[T], name: str, namespace: str = "") -> T | None:
        """One object, if it is there and may be read."""
        try:
            return await self.client.get(resource, name, namespace)
        except ForbiddenError:
            if self._insisting:
                raise
            self._miss(resource, f"you may not read {resource} {name}")
            return None
        except NotFoundError:
            return None

    def _miss(self, resource: Resource[KubeObject], words: str) -> None:
        self.unknown.append(words)
        self._unseen.add(str(resource))
        self._forbidden.add(str(resource))


def _unreadable(resource: Resource[KubeObject], item: msgspec.Raw, problem: str) -> Unreadable:
    try:
        meta = msgspec.json.decode(item, type=Named).metadata
    except ValueError:
        meta = ObjectMeta(name="without a name that can be read")
    name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    return Unreadable(resource=str(resource), name=name, problem=problem)
