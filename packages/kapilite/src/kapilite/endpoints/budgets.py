"""Whether a PodDisruptionBudget lets a pod be evicted.

How many disruptions a budget allows is in its status, which a controller keeps; the server counts
down what it grants, so that evictions between two looks of that controller do not add up to more. A
status that is older than its spec allows none.
"""

from __future__ import annotations

from typing import Any

from kapilite import metadata
from kapilite.errors import ApiError
from kapilite.reads.selectors import parse_labels
from kapilite.writes.subresources import selector_text

Object = dict[str, Any]

BUDGETS = "poddisruptionbudgets.policy"
_FREE = ("Pending", "Succeeded", "Failed")
"""Phases of a pod that no budget counts."""
_SECONDS = 10
_PROCESSING = "The disruption budget {} is still being processed by the server."
_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_NEEDS = "The disruption budget {} needs {} healthy pods and has {} currently"
_SEVERAL = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


def protecting(pod: Object, budgets: list[Object]) -> Object | None:
    """The budget that a pod counts for, of those of its namespace. Raises ApiError for several."""
    if (pod.get("status") or {}).get("phase") in _FREE or pod["metadata"].get("deletionTimestamp"):
        return None
    found = [one for one in budgets if _selects(one, pod)]
    if len(found) > 1:
        raise ApiError(500, "InternalError", _SEVERAL)
    return found[0] if found else None


def grant(budget: Object, pod: str) -> Object:
    """The budget once it has granted the eviction of a pod. Raises ApiError: too many requests."""
    meta, status = budget["metadata"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < meta.get("generation", 1):
        raise _refused(_VIOLATED, _PROCESSING.format(meta["name"]), retryAfterSeconds=_SECONDS)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 1:
        counts = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _refused(_VIOLATED, _NEEDS.format(meta["name"], *counts))
    disrupted = {**(status.get("disruptedPods") or {}), pod: metadata.now()}
    counted = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
    return {**budget, "status": counted}


def _selects(budget: Object, pod: Object) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and parse_labels(selector_text(selector))(pod)


def _refused(message: str, why: str, **details: Any) -> ApiError:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return ApiError(429, "TooManyRequests", message, causes=causes, **details)
