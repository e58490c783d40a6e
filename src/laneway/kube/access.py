"""Whether a user has a right, asked of the API server by SubjectAccessReview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from laneway.api import GROUP, ObjectMeta
from laneway.kube.resource import Resource


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False


class SubjectAccessReview(msgspec.Struct, frozen=True):
    """The answer, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", False, SubjectAccessReview)


def review(
    verb: str,
    resource: str,
    name: str,
    *,
    username: str,
    uid: str = "",
    groups: Sequence[str] = (),
    extra: Mapping[str, Sequence[str]] | None = None,
    namespace: str = "",
    group: str = GROUP,
) -> dict[str, Any]:
    """The question whether a user has a right on a resource; no name: on all.

    The group is Laneway's unless another one is given; empty: the core group.
    """
    attributes = {"group": group, "resource": resource, "name": name, "verb": verb}
    if namespace:
        attributes["namespace"] = namespace
    spec: dict[str, Any] = {"resourceAttributes": attributes, "user": username}
    if uid:
        spec["uid"] = uid
    if groups:
        spec["groups"] = list(groups)
    if extra:
        spec["extra"] = {key: list(values) for key, values in extra.items()}
    return {"apiVersion": REVIEWS.api_version, "kind": "SubjectAccessReview", "spec": spec}
