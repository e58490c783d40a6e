"""Asking the webhooks, in order or at once, and what their answers do to the write.

`Admission` follows the configurations in the store: one that is stored counts from the moment its
write is answered. While webhooks are asked nothing is locked, so a webhook may itself call this
server; a write must therefore check afterwards whether the stored object is still the one
that the webhooks were shown.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kapilite import builtin
from kapilite.admission import conditions, configuration, matching, mutation, review
from kapilite.admission.attributes import Attributes, Refused, internal, too_late
from kapilite.admission.calling import Caller
from kapilite.admission.configuration import MUTATING, VALIDATING
from kapilite.admission.failures import CallError
from kapilite.errors import NotFound
from kapilite.storage.events import Key, as_object

if TYPE_CHECKING:
    from kapilite.admission.attributes import Object, Operation
    from kapilite.admission.configuration import Webhook
    from kapilite.admission.matching import Match
    from kapilite.kinds import Kind
    from kapilite.registry import Registry
    from kapilite.storage.events import Event
    from kapilite.storage.store import Store

log = logging.getLogger(__name__)


class _Plan(NamedTuple):
    """The webhooks whose rules match one kind of write, in the order of asking."""

    mutating: tuple[Match, ...] = ()
    validating: tuple[Match, ...] = ()


class Admission:
    """The webhooks that the configurations in the store name."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._caller = Caller(store)
        self._configured: dict[Key, tuple[Webhook, ...]] = {}
        self._plans: dict[tuple[str, ...], _Plan] = {}
        for resource in (MUTATING, VALIDATING):
            for row in store.rows(resource):
                self._configure(Key(resource, row.namespace, row.name), as_object(row.body))
        store.on_commit(self._follow)

    def concerns(self, kind: Kind, operation: Operation, subresource: str = "") -> bool:
        """Whether any webhook may want to see such writes."""
        return bool(self._configured) and any(self._plan(kind, operation, subresource))

    async def mutate(self, attributes: Attributes) -> tuple[Object | None, tuple[str, ...]]:
        """What the mutating webhooks make of the object, and their warnings.

        What comes back is pruned and has its defaults; it is still to be validated.
        """
        matches = self._plan(attributes.kind, attributes.operation, attributes.subresource).mutating
        warnings: list[str] = []
        asked: set[int] = set()
        again: set[int] = set()
        for turn in ("first", "second"):
            changed = False
            for number, match in enumerate(matches):
                if turn == "second" and number not in again:
                    continue
                if not self._selected(match, attributes):
                    continue
                patch = await self._patch(match, attributes, warnings)
                obj = mutation.patched(match, attributes, patch)
                if obj is not None:
                    attributes = msgspec.structs.replace(attributes, object=obj)
                    changed = True
                    # Those asked before have not seen this. No webhook is asked again because of a
                    # change of its own.
                    again |= asked
                    asked = set()
                if match.webhook.reinvoke:
                    asked.add(number)
            if not changed:
                break
        return attributes.object, tuple(warnings)

    async def validate(self, attributes: Attributes) -> tuple[str, ...]:
        """The warnings of the validating webhooks, when none of them refuses.

        All are asked at once, and all answers awaited; the first in order that refuses counts.
        """
        if not attributes.name and attributes.object is not None:
            name = attributes.object["metadata"].get("name", "")  # made up by now
            attributes = msgspec.structs.replace(attributes, name=name)
        plan = self._plan(attributes.kind, attributes.operation, attributes.subresource)
        found = [match for match in plan.validating if self._selected(match, attributes)]
        if found and _left(attributes) <= 0:
            raise too_late()
        outcomes = await asyncio.gather(*(self._verdict(match, attributes) for match in found))
        warnings = tuple(text for given, _ in outcomes for text in given)
        for _, refusal in outcomes:
            if refusal is not None:
                refusal.warnings = warnings
                raise refusal
        return warnings

    async def stop(self) -> None:
        """Close the connections to webhooks."""
        await self._caller.close()

    async def _patch(
        self, match: Match, attributes: Attributes, warnings: list[str]
    ) -> tuple[Any, ...]:
        """The patch of one mutating webhook; its warnings are added to those given."""
        answer = await self._answer(match, attributes, tuple(warnings))
        warnings += answer.warnings
        if answer.refusal:
            raise Refused(answer.refusal, tuple(warnings))
        return answer.patch

    async def _verdict(
        self, match: Match, attributes: Attributes
    ) -> tuple[tuple[str, ...], Refused | None]:
        """The warnings and the refusal of one validating webhook."""
        try:
            answer = await self._answer(match, attributes)
        except Refused as refusal:
            return (), refusal
        return answer.warnings, Refused(answer.refusal) if answer.refusal else None

    async def _answer(
        self, match: Match, attributes: Attributes, warnings: tuple[str, ...] = ()
    ) -> review.Answer:
        """What the webhook says; nothing where it fails and its failure policy allows that."""
        webhook = match.webhook
        try:
            return await self._ask(match, attributes)
        except CallError as error:
            names = {"configuration": webhook.configuration, "webhook": webhook.name}
            if not webhook.ignore_failure:
                log.warning("webhook failed, the request is refused: %s", error, extra=names)
                why = f'failed calling webhook "{webhook.name}": {error}'
                raise internal(why, warnings) from error
            log.warning("webhook failed and is ignored: %s", error, extra=names)
            if _left(attributes) <= 0:
                raise too_late(warnings) from error
            return review.Answer()

    async def _ask(self, match: Match, attributes: Attributes) -> review.Answer:
        uid = str(uuid.uuid4())
        body = msgspec.json.encode(review.request(match, attributes, uid))
        seconds = min(match.webhook.timeout, _left(attributes))
        if seconds <= 0:
            raise too_late()
        answer = await self._caller.post(match.webhook.endpoint, body, seconds)
        return review.answer(match, answer, uid)

    def _selected(self, match: Match, attributes: Attributes) -> bool:
        chosen = matching.selected(match.webhook, attributes, self._namespace)
        return chosen and conditions.hold(match, attributes)

    def _namespace(self, name: str) -> Object:
        stored = self._store.get(Key(builtin.NAMESPACES, "", name))
        if stored is None:
            text = f'{builtin.NAMESPACES} "{name}" not found'
            raise NotFound(text, name=name, kind=builtin.NAMESPACES)
        return as_object(stored.body)

    def _plan(self, kind: Kind, operation: str, subresource: str) -> _Plan:
        key = (kind.group, kind.version, kind.plural, operation, subresource)
        plan = self._plans.get(key)
        if plan is None:
            versions = [k for k in self._registry.kinds if k.resource == kind.resource]
            plan = self._plans[key] = _Plan(
                *(
                    matching.plan(self._webhooks(resource), kind, subresource, operation, versions)
                    for resource in (MUTATING, VALIDATING)
                )
            )
        return plan

    def _webhooks(self, resource: str) -> list[Webhook]:
        """Of all configurations in the order of their names."""
        keys = sorted(key for key in self._configured if key.resource == resource)
        return [webhook for key in keys for webhook in self._configured[key]]

    def _follow(self, event: Event) -> None:
        if event.key.resource in (MUTATING, VALIDATING):
            if event.change == "DELETED":
                self._configured.pop(event.key, None)
            else:
                self._configure(event.key, event.object)
            self._caller.keep(
                webhook.endpoint for found in self._configured.values() for webhook in found
            )
        elif event.key.resource != builtin.CRDS:
            return
        self._plans.clear()

    def _configure(self, key: Key, obj: Object) -> None:
        mutating = key.resource == MUTATING
        self._configured[key] = configuration.webhooks(obj, mutating=mutating)


def _left(attributes: Attributes) -> float:
    """Seconds until the whole request must be answered."""
    return attributes.deadline - asyncio.get_running_loop().time()
