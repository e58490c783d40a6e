"""What Kubernetes refuses in the kinds that make pods from a template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.builtin import pods, rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Object = dict[str, Any]

_MISMATCH = "`selector` does not match template `labels`"
_STATEFUL = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)
_STATEFUL_CHANGEABLE = frozenset(
    {
        "minReadySeconds",
        "ordinals",
        "persistentVolumeClaimRetentionPolicy",
        "replicas",
        "revisionHistoryLimit",
        "template",
        "updateStrategy",
    }
)


def deployment(obj: Object, old: Object | None) -> Iterator[Problem]:
    """What is wrong with a Deployment."""
    spec = obj.get("spec") or {}
    yield from _controller(spec, old)
    yield from rules.not_negative(
        spec, "spec", "replicas", "minReadySeconds", "revisionHistoryLimit"
    )
    strategy = spec.get("strategy") or {}
    kind = strategy.get("type", "")
    if kind not in ("Recreate", "RollingUpdate"):
        yield problem.not_supported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))
    if kind == "Recreate" and strategy.get("rollingUpdate") is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        yield problem.forbidden("spec.strategy.rollingUpdate", detail)
    seconds, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
    if seconds is not None and seconds <= ready:
        detail = "must be greater than minReadySeconds"
        yield problem.invalid("spec.progressDeadlineSeconds", seconds, detail)


def daemon_set(obj: Object, old: Object | None) -> Iterator[Problem]:
    """What is wrong with a DaemonSet."""
    spec = obj.get("spec") or {}
    yield from _controller(spec, old, empty="invalid")
    yield from rules.not_negative(spec, "spec", "minReadySeconds", "revisionHistoryLimit")
    kind = (spec.get("updateStrategy") or {}).get("type", "")
    if kind not in ("OnDelete", "RollingUpdate"):
        supported = ("OnDelete", "RollingUpdate")
        yield problem.not_supported("spec.updateStrategy.type", kind, supported)


def replica_set(obj: Object, old: Object | None) -> Iterator[Problem]:
    """What is wrong with a ReplicaSet."""
    spec = obj.get("spec") or {}
    yield from _controller(spec, old)
    yield from rules.not_negative(spec, "spec", "replicas", "minReadySeconds")


def stateful_set(obj: Object, old: Object | None) -> Iterator[Problem]:
    """What is wrong with a StatefulSet."""
    spec = obj.get("spec") or {}
    yield from _controller(spec, None)
    yield from rules.not_negative(spec, "spec", "replicas", "minReadySeconds")
    if old is None:
        return
    before = old.get("spec") or {}
    if any(
        spec.get(name) != before.get(name)
        for name in (spec.keys() | before.keys()) - _STATEFUL_CHANGEABLE
    ):
        yield problem.forbidden("spec", _STATEFUL)


def job(obj: Object, old: Object | None) -> Iterator[Problem]:
    """What is wrong with a Job."""
    spec = obj.get("spec") or {}
    yield from rules.not_negative(
        spec, "spec", "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"
    )
    template = (spec.get("template") or {}).get("spec") or {}
    yield from pods.spec(template, "spec.template.spec")
    policy = template.get("restartPolicy")
    if policy == "Always":
        supported = ("OnFailure", "Never")
        yield problem.not_supported("spec.template.spec.restartPolicy", policy, supported)
    before = (old or {}).get("spec") or {}
    for name in ("selector", "template", "completionMode") if old else ():
        if not (name == "template" and spec.get("suspend")):
            yield from rules.immutable(f"spec.{name}", spec.get(name), before.get(name))


def _controller(spec: Object, old: Object | None, *, empty: str = "invalid") -> Iterator[Problem]:
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is None:
        yield problem.required("spec.selector")
    else:
        yield from rules.selector("spec.selector", selector)
        if not selector:
            detail = f"empty selector is {empty} for deployment"
            yield problem.invalid("spec.selector", selector, detail)
    if selector and not rules.chooses(selector, labels):
        yield problem.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    yield from rules.labels("spec.template.labels", labels)
    pod = template.get("spec") or {}
    yield from pods.spec(pod, "spec.template.spec")
    policy = pod.get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        yield problem.not_supported("spec.template.spec.restartPolicy", policy, ("Always",))
    if old is not None:
        before = (old.get("spec") or {}).get("selector")
        yield from rules.immutable("spec.selector", selector, before)
