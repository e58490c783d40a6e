"""Whether a user has a right, asked of the API server.

About another user by SubjectAccessReview, about oneself by SelfSubjectAccessReview.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from laneway.api import GROUP, ObjectMeta
from laneway.kube.client import Client
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


class Right(NamedTuple):
    """A right that is asked about."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    """Empty: in all of them."""
    name: str = ""
    subresource: str = ""

    @property
    def words(self) -> str:
        """As in `patch virtualmachines.kubevirt.io in namespace default`."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {resource}{f' in namespace {self.namespace}' * bool(self.namespace)}"


class SelfSubjectAccessReview(msgspec.Struct, frozen=True):
    """The answer, as far as it is read."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


SELF_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", False, SelfSubjectAccessReview
)


async def may(client: Client, right: Right) -> bool:
    """Whether the user of the client has a right. Raises KubeError."""
    attributes = {key: value for key, value in right._asdict().items() if value}
    body = {
        "apiVersion": SELF_REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    return (await client.create(SELF_REVIEWS, body)).status.allowed
