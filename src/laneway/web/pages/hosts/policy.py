"""Make or change a HostPolicy: with the nodes that it selects, and what the server says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.api import HostPolicy, HostPolicySpec, ObjectMeta
from laneway.changes import host_policies as changes
from laneway.changes.answered import words_of
from laneway.changes.errors import ChangeError
from laneway.controllers.rollout.asked import merged, selected, selecting
from laneway.kube.errors import AlreadyExistsError, ApiError, KubeError, UnauthorizedError
from laneway.web.page import Action, Again, Context, Done, NotFound, Page
from laneway.web.pages.hosts import fields, rows
from laneway.web.pages.hosts.fields import Values, Wrong
from laneway.web.pages.vms.fields import Typed, sent, typed
from laneway.web.visit import Visit

_ANSWER = "answer"
_EDITED = "edited"
"""A field that only a form that was sent or edited has."""
_SHOWN = 50


class Chosen(NamedTuple):
    """A node that the policy would select."""

    name: str
    others: Sequence[str]
    """Other policies that select it."""
    problem: str
    """Why what all of them ask cannot be combined."""


def _known(visit: Visit) -> HostPolicy | None:
    """The policy that is changed; None for a new one. Raises NotFound."""
    name = visit.place.names.get("name", "")
    if not name:
        return None
    found = visit.caches.policies.store.get(name)
    if found is None:
        raise NotFound(name)
    return found


def _given(visit: Visit, known: HostPolicy | None) -> Values:
    shown = fields.shown(known) if known is not None else fields.empty()
    if not typed(visit).get(_EDITED):
        return shown
    given = fields.typed(typed(visit))
    return given._replace(name=known.metadata.name) if known is not None else given


def _judged(visit: Visit, given: Values) -> tuple[HostPolicySpec, Wrong]:
    spec, wrong = fields.read(given, visit.texts)
    if not fields.is_name(given.name):
        wrong = {**wrong, "name": [visit.texts("hosts.bad_name")]}
    return spec, wrong


def _context(visit: Visit) -> Context:
    known, texts = _known(visit), visit.texts
    given = _given(visit, known)
    spec, wrong = _judged(visit, given)
    is_edited = bool(typed(visit).get(_EDITED))
    chosen = _chosen(visit, given.name, spec)
    title = texts("hosts.change_title", name=given.name) if known else texts("hosts.new_title")
    return {
        "title": title,
        "known": known,
        "generation": _generation(typed(visit), known),
        "given": given,
        "when": [(one, texts(f"hosts.when_{one}")) for one in fields.WHEN],
        "days": [(one, texts(f"hosts.day_{one}")) for one in fields.DAYS],
        "unreadable": [one for found in wrong.values() for one in found] if is_edited else [],
        "answer": visit.data.get(_ANSWER),
        "nodes": chosen[:_SHOWN],
        "count": len(chosen),
        "labels_unread": "labels" in wrong,
        "sees_nodes": visit.may(rows.LIST_NODES),
        "reason": _against(visit, known),
        "problems": {**(wrong if is_edited and visit.problems else {}), **visit.problems},
        "concerns": rows.concerns,
    }


def _generation(of: Typed, known: HostPolicy | None) -> int:
    """Of the spec that the form began with."""
    text = of.get("generation")
    if text.isascii() and text.isdecimal() and len(text) < 12:
        return int(text)
    return known.metadata.generation if known is not None else 0


def _chosen(visit: Visit, name: str, spec: HostPolicySpec) -> list[Chosen]:
    """The nodes that the policy would select."""
    if not visit.may(rows.LIST_NODES):
        return []
    would = HostPolicy(metadata=ObjectMeta(name=name or "new"), spec=spec)
    others = [one for one in visit.caches.policies.store if one.metadata.name != name]
    found = []
    for node in selected(would, visit.caches.nodes.store):
        also = selecting(others, node)
        problem = merged([*also, would]).problem if also else ""
        found.append(Chosen(node.metadata.name, [one.metadata.name for one in also], problem))
    return found


def _against(visit: Visit, known: HostPolicy | None) -> str:
    needed = rows.CHANGE if known is not None else rows.CREATE
    if visit.may(needed):
        return ""
    return visit.texts("claiming.may_not", verb=needed.verb, resource=needed.resource)


async def _prepare(visit: Visit) -> None:
    """Ask the server what it says of the policy, without storing it."""
    known = _known(visit)
    given = _given(visit, known)
    spec, wrong = _judged(visit, given)
    if wrong or not typed(visit).get(_EDITED) or _against(visit, known):
        return
    visit.data[_ANSWER] = [
        one for found in (await _try(visit, given, spec)).values() for one in found
    ]


async def _try(visit: Visit, given: Values, spec: HostPolicySpec, *, dry_run: bool = True) -> Wrong:
    """Store the policy; what is wrong with it, by field."""
    client, known = visit.client.unwaiting() if dry_run else visit.client, _known(visit)
    try:
        if known is None:
            await changes.create(client, given.name, spec, dry_run=dry_run)
        else:
            generation = _generation(typed(visit), known)
            await changes.change(client, given.name, spec, generation, dry_run=dry_run)
    except UnauthorizedError:
        raise
    except AlreadyExistsError:
        return {"name": [visit.texts("hosts.name_taken", name=given.name)]}
    except (KubeError, ChangeError) as error:
        if not (isinstance(error, ApiError) and any(one.field for one in error.causes)):
            return {"": [words_of(error)]}
        found: dict[str, list[str]] = {}
        for one in error.causes:
            text = f"{one.field}: {one.message}" if one.field else one.message
            found.setdefault(fields.field_of(one.field), []).append(text)
        return found
    return {}


async def _act(visit: Visit) -> Done | Again:
    sent(visit)
    known = _known(visit)
    given = _given(visit, known)
    spec, wrong = _judged(visit, given)
    if visit.sent("check"):
        return Again({})
    if wrong := wrong or await _try(visit, given, spec, dry_run=False):
        return Again(wrong)
    done = "hosts.changed" if known is not None else "hosts.created"
    return Done("/hosts", visit.texts(done, name=given.name))


def _page(pattern: str) -> Page:
    return Page(
        pattern,
        "hosts-policy.html",
        _context,
        kinds=rows.KINDS,
        needs=(rows.LIST_POLICIES,),
        asks=(rows.LIST, rows.LIST_NODES, rows.CREATE, rows.CHANGE),
        prepare=_prepare,
    )


PATTERNS = ("/hosts/policy", "/hosts/policy/{name}")
PAGES = tuple(map(_page, PATTERNS))
ACTIONS = tuple(Action(pattern, _act) for pattern in PATTERNS)
