"""What is wrong with a webhook configuration, in the words of Kubernetes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite.admission import conditions, locations, rules
from kapilite.admission.configuration import REVIEW_VERSIONS
from kapilite.admission.kinds import GROUP, MUTATING
from kapilite.builtin.rules import selector
from kapilite.problems import (
    Problem,
    duplicate,
    invalid,
    not_supported,
    required,
)

if TYPE_CHECKING:
    from kapilite.kinds import Kind

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_CHOICES: dict[str, tuple[str, ...]] = {
    "failurePolicy": ("Fail", "Ignore"),
    "matchPolicy": ("Equivalent", "Exact"),
}
_REINVOCATION: dict[str, tuple[str, ...]] = {"reinvocationPolicy": ("IfNeeded", "Never")}


def problems(kind: Kind, obj: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong with a configuration whose fields have the right types."""
    if kind.group != GROUP:
        return
    choices = _CHOICES | (_REINVOCATION if kind.kind == MUTATING else {})
    names: set[str] = set()
    for index, webhook in enumerate(obj.get("webhooks") or ()):
        at, name = f"webhooks[{index}]", webhook.get("name") or ""
        yield from _webhook(at, webhook, choices)
        yield from _versions(f"{at}.admissionReviewVersions", webhook)
        if name in names:
            yield duplicate(f"{at}.name", name)
        elif name:
            names.add(name)


def _webhook(
    at: str, webhook: dict[str, Any], choices: dict[str, tuple[str, ...]]
) -> Iterator[Problem]:
    yield from _name(f"{at}.name", webhook.get("name") or "")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from rules.problems(f"{at}.rules[{index}]", rule)
    for field, values in choices.items():
        if webhook.get(field) not in (None, *values):
            yield not_supported(f"{at}.{field}", webhook[field], values)
    if webhook.get("sideEffects") is None:
        text = f"must specify one of {', '.join(_SIDE_EFFECTS)}"
        yield required(f"{at}.sideEffects", text)
    elif webhook["sideEffects"] not in _SIDE_EFFECTS:
        yield not_supported(f"{at}.sideEffects", webhook["sideEffects"], _SIDE_EFFECTS)
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{at}.timeoutSeconds", seconds, text)
    for field in ("namespaceSelector", "objectSelector"):
        yield from selector(f"{at}.{field}", webhook.get(field) or {})
    yield from locations.problems(f"{at}.clientConfig", webhook.get("clientConfig") or {})
    yield from conditions.problems(f"{at}.matchConditions", webhook.get("matchConditions") or ())


def _name(field: str, name: str) -> Iterator[Problem]:
    if not name:
        yield required(field)
        return
    found = list(names.subdomain(name))
    for text in found:
        yield invalid(field, name, text)
    if not found and name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        yield invalid(field, name, text)


def _versions(field: str, webhook: dict[str, Any]) -> Iterator[Problem]:
    versions: Sequence[str] = webhook.get("admissionReviewVersions") or ()
    known = ", ".join(REVIEW_VERSIONS)
    if not versions:
        yield required(field, f"must specify one of {known}")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{field}[{index}]", version, "duplicate version")
        elif not names.is_label_1035(version):
            yield invalid(f"{field}[{index}]", version, names.LABEL_1035_TEXT)
    if not set(versions) & set(REVIEW_VERSIONS):
        yield rules.invalid_list(field, versions, f"must include at least one of {known}")
