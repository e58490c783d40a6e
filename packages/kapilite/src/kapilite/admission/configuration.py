"""A stored webhook configuration, read once into the form that writes are matched against.

What is read here has been checked when it was stored (`problems`), so nothing is checked again.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from kapilite.reads.selectors import LabelSelector, parse_labels

VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"

REVIEW_VERSIONS = ("v1", "v1beta1")
"""The forms of AdmissionReview that this server can send; a webhook prefers its first."""


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """Which writes a webhook wants to see."""

    operations: tuple[str, ...]
    api_groups: tuple[str, ...]
    api_versions: tuple[str, ...]
    resources: tuple[str, ...]
    scope: str = "*"


class Service(msgspec.Struct, frozen=True):
    """A webhook that is reached through a Service."""

    namespace: str
    name: str
    path: str = ""
    port: int = 443

    @property
    def host(self) -> str:
        """The name that its certificate must carry."""
        return f"{self.name}.{self.namespace}.svc"


class Endpoint(msgspec.Struct, frozen=True):
    """Where a webhook is, and whose certificate it must show."""

    url: str
    service: Service | None
    ca_bundle: bytes


class Webhook(msgspec.Struct, frozen=True):
    """One entry of a configuration."""

    configuration: str
    index: int
    name: str
    mutating: bool
    rules: tuple[Rule, ...]
    exact: bool
    """Match only the version the client used, not also the others of the same resource."""
    namespaces: LabelSelector
    objects: LabelSelector
    any_namespace: bool
    any_object: bool
    ignore_failure: bool
    reinvoke: bool
    timeout: int
    review_version: str
    endpoint: Endpoint
    conditions: tuple[str, ...] = ()
    """Expressions; see `conditions`."""


def webhooks(obj: dict[str, Any], *, mutating: bool) -> tuple[Webhook, ...]:
    """The webhooks of a configuration, in order."""
    name = obj["metadata"]["name"]
    return tuple(
        _webhook(name, index, entry, mutating=mutating)
        for index, entry in enumerate(obj.get("webhooks") or ())
    )


def _webhook(configuration: str, index: int, entry: dict[str, Any], *, mutating: bool) -> Webhook:
    namespaces, objects = (
        selector_text(entry.get(field) or {}) for field in ("namespaceSelector", "objectSelector")
    )
    known = [v for v in entry["admissionReviewVersions"] if v in REVIEW_VERSIONS]
    return Webhook(
        configuration=configuration,
        index=index,
        name=entry["name"],
        mutating=mutating,
        rules=tuple(msgspec.convert(rule, Rule) for rule in entry.get("rules") or ()),
        exact=entry.get("matchPolicy") == "Exact",
        namespaces=parse_labels(namespaces),
        objects=parse_labels(objects),
        any_namespace=not namespaces,
        any_object=not objects,
        ignore_failure=entry.get("failurePolicy") == "Ignore",
        reinvoke=entry.get("reinvocationPolicy") == "IfNeeded",
        timeout=entry.get("timeoutSeconds") or 10,
        review_version=known[0],
        endpoint=_endpoint(entry["clientConfig"]),
        conditions=tuple(one["expression"] for one in entry.get("matchConditions") or ()),
    )


def _endpoint(config: dict[str, Any]) -> Endpoint:
    service = config.get("service")
    return Endpoint(
        url=config.get("url") or "",
        service=msgspec.convert(service, Service) if service else None,
        ca_bundle=base64.b64decode(config.get("caBundle") or ""),
    )


def selector_text(selector: dict[str, Any]) -> str:
    """A LabelSelector as the text that says the same."""
    terms = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        # The text that chooses the empty value alone is a comma: nothing would be no value at all.
        key, values = expression["key"], ",".join(expression.get("values") or ()) or ","
        match expression["operator"]:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(key)
            case "DoesNotExist":
                terms.append(f"!{key}")
    return ",".join(terms)
