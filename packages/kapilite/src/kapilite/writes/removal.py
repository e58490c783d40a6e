"""The verb delete with the webhooks that are asked before, for every client."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kapilite.admission.attributes import Attributes, deadline
from kapilite.authn.users import (
    User,
    authenticated,
    service_account_groups,
    service_account_name,
)

if TYPE_CHECKING:
    from kapilite.admission.dispatch import Admission
    from kapilite.deletion.background import Deletion
    from kapilite.deletion.options import DeleteOptions
    from kapilite.deletion.verb import Deleted
    from kapilite.kinds import Kind
    from kapilite.writes.objects import Object

COLLECTOR = authenticated(
    User(
        service_account_name("kube-system", "generic-garbage-collector"),
        service_account_groups("kube-system"),
    )
)
"""In whose name that is deleted which follows from another deletion."""


class Removed(NamedTuple):
    """What became of the object, and the warnings for the client."""

    outcome: Deleted
    warnings: tuple[str, ...]


class Removal:
    """Deletes one object at a time."""

    def __init__(self, deletion: Deletion, admission: Admission) -> None:
        self._deletion = deletion
        self._admission = admission
        deletion.review = self._collected
        deletion.is_reviewed = lambda kind: admission.concerns(kind, "DELETE")

    async def delete(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions, user: User
    ) -> Removed:
        """Raises NotFound, Conflict when a precondition fails, and what a webhook refuses with."""
        warnings: tuple[str, ...] = ()
        until = deadline()  # however often it is asked

        async def review(kind: Kind, obj: Object, options: DeleteOptions) -> None:
            nonlocal warnings
            warnings = await self._ask(kind, obj, options, user, until)

        done = await self._deletion.reviewed(kind, namespace, name, options, review)
        return Removed(done, warnings)

    async def evict(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> None:
        """Delete a pod whose eviction was admitted: its deletion is not asked about as well."""
        await self._deletion.reviewed(kind, namespace, name, options, None)

    async def _collected(self, kind: Kind, obj: Object, options: DeleteOptions) -> None:
        await self._ask(kind, obj, options, COLLECTOR, deadline())

    async def _ask(
        self, kind: Kind, obj: Object, options: DeleteOptions, user: User, until: float
    ) -> tuple[str, ...]:
        if not self._admission.concerns(kind, "DELETE"):
            return ()
        write = Attributes(
            operation="DELETE",
            kind=kind,
            name=obj["metadata"]["name"],
            namespace=obj["metadata"].get("namespace", ""),
            old_object={**obj, "apiVersion": kind.api_version},
            user=user,
            dry_run=options.dry_run,
            options=options.as_sent(),
            deadline=until,
        )
        _, warnings = await self._admission.mutate(write)
        return warnings + await self._admission.validate(write)
