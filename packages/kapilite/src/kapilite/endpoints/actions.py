"""What a POST does besides creating an object: bind a pod, evict it, issue a token.

Each is a subresource that is written to and never read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from multidict import MultiDict

from kapilite import metadata
from kapilite.deletion import options as deletion_options
from kapilite.endpoints import answers, budgets
from kapilite.errors import ApiError
from kapilite.kinds import Kind
from kapilite.problems import rejected, required
from kapilite.storage.events import as_object
from kapilite.writes import subresources
from kapilite.writes.objects import Subject, Target

if TYPE_CHECKING:
    from aiohttp import web

    from kapilite.encodings.negotiation import Form
    from kapilite.endpoints.access import Access
    from kapilite.registry import Registry
    from kapilite.storage.store import Store
    from kapilite.writes.objects import Object, Options
    from kapilite.writes.removal import Removal
    from kapilite.writes.resources import Resources


def _posted(group: str, kind: str) -> Kind:
    lower = kind.lower()
    return Kind(
        group=group,
        version="v1",
        kind=kind,
        plural=f"{lower}s",
        singular=lower,
        namespaced=True,
        schema={"type": "object"},
    )


KINDS = {
    "binding": _posted("", "Binding"),
    "eviction": _posted("policy", "Eviction"),
    "token": _posted("authentication.k8s.io", "TokenRequest"),
}
"""What is posted to each of them."""


Action = Callable[["Subject", "Object", "Options", "Form"], Awaitable["web.Response"]]


class Actions:
    """The actions by the resource and the subresource that they belong to."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        resources: Resources,
        removal: Removal,
        access: Access,
    ) -> None:
        self._store = store
        self._registry = registry
        self._resources = resources
        self._removal = removal
        self._known: dict[tuple[str, str], Action] = {
            ("pods", "binding"): self._bind,
            ("pods", "eviction"): self._evict,
            ("serviceaccounts", "token"): access.issue_token,
        }

    def find(self, kind: Kind, name: str) -> Action | None:
        return self._known.get((kind.resource, name)) if name in kind.subresources else None

    async def _bind(
        self, subject: Subject, body: Object, options: Options, form: Form
    ) -> web.Response:
        """Say on which node a pod is to run, as a scheduler does."""
        node = body["target"].get("name")
        if not node:
            raise rejected(KINDS["binding"], subject.name, [required("target.name")])
        annotations = body["metadata"].get("annotations") or {}
        uid = body["metadata"].get("uid")

        def bound(pod: Object) -> Object:
            spec = pod.get("spec") or {}
            problem = ""
            if uid and uid != pod["metadata"]["uid"]:
                problem = (
                    f"Precondition failed: UID in precondition: {uid}, "
                    f"UID in object meta: {pod['metadata']['uid']}"
                )
            elif "deletionTimestamp" in pod["metadata"]:
                problem = f"pod {subject.name} is being deleted, cannot be assigned to a host"
            elif spec.get("nodeName"):
                problem = f'pod {subject.name} is already assigned to node "{spec["nodeName"]}"'
            if problem:
                text = f'Operation cannot be fulfilled on pods/binding "{subject.name}": {problem}'
                raise ApiError(409, "Conflict", text, name=subject.name, kind="pods/binding")
            meta = pod["metadata"]
            meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
            return {
                **pod,
                "metadata": meta,
                "spec": {**spec, "nodeName": node},
                "status": _scheduled(pod.get("status") or {}),
            }

        at = subresources.everything(subject.kind, "binding")
        await self._resources.change(Target(subject.kind, at, *subject[1:]), bound, options)
        return answers.success(form, status=201)

    async def _evict(
        self, subject: Subject, body: Object, options: Options, form: Form
    ) -> web.Response:
        """Delete a pod in the way of `kubectl drain`, if its disruption budget allows that."""
        wanted = deletion_options.parse(body.get("deleteOptions") or {}, MultiDict())
        if options.dry_run:
            wanted = msgspec.structs.replace(wanted, dry_run=True)
        pod = as_object(self._resources.get(*subject).body)
        rows = self._store.rows(budgets.BUDGETS, subject.namespace)
        budget = budgets.protecting(pod, [as_object(row.body) for row in rows])
        kind = self._registry.of_resource(budgets.BUDGETS)
        if budget is not None and kind is not None:
            budgets.grant(budget, subject.name)
            if not wanted.dry_run:
                at = subresources.everything(kind, "status")
                target = Target(kind, at, subject.namespace, budget["metadata"]["name"])
                # Another eviction may have been granted meanwhile.
                await self._resources.change(
                    target, lambda now: budgets.grant(now, subject.name), options
                )
        await self._removal.evict(*subject, wanted)
        return answers.success(form, status=201)


def _scheduled(status: dict[str, Any]) -> dict[str, Any]:
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": metadata.now(),
    }
    return {**status, "conditions": [*others, condition]}
