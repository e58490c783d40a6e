"""What the forms of devices show: what can be chosen, what was, and what would become of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.changes.answered import denial, words_of
from laneway.changes.errors import ChangeError, OvertakenError, RefusedError
from laneway.kube.errors import AlreadyExistsError, ApiError, ForbiddenError, InvalidError
from laneway.views.fitting import Cause
from laneway.views.order import natural
from laneway.web import holders
from laneway.web.judged import world_of
from laneway.web.page import Context
from laneway.web.pages.vms import resources, seen
from laneway.web.pages.vms.fields import COUNT, MOST, Typed
from laneway.web.pages.vms.fit import Fit
from laneway.web.pages.vms.resources import kind_of
from laneway.web.visit import Visit

_USERS = 3
_FIELDS = (
    ("metadata.name", "name"),
    ("metadata.namespace", "namespace"),
    ("spec.template.spec.domain.cpu", "cores"),
    ("spec.template.spec.domain.resources.requests.cpu", "cores"),
    ("spec.template.spec.domain.memory", "memory"),
    ("spec.template.spec.domain.resources.requests.memory", "memory"),
    ("spec.template.spec.domain.devices.hostDevices", "devices"),
    ("spec.template.spec.domain.devices.gpus", "devices"),
    ("spec.template.spec.nodeSelector", "home"),
    ("spec.template.spec.volumes", "disk"),
)
"""Which field of a form a field of a VM is."""


class User(NamedTuple):
    """A holder of devices of a node."""

    title: str
    url: str
    devices: int
    state: str


class Verdict(NamedTuple):
    """The answer to what a form says."""

    fit: Fit
    against: Sequence[str]
    short: Sequence[str]
    warnings: Sequence[str]


def verdict(visit: Visit, typed: Typed, found: Fit | None) -> Verdict | None:
    """The answer, in words that name nothing that the user may not see."""
    if found is None:
        return None
    unread = [text for texts in wrong(visit, typed).values() for text in texts]
    return Verdict(
        fit=found,
        against=[*unread, *(seen.words(visit, one.words) for one in found.against)],
        short=[seen.words(visit, one.words) for one in found.short],
        warnings=[seen.words(visit, one) for one in found.warnings],
    )


def helpers(visit: Visit) -> Mapping[str, Callable[..., Any]]:
    """What templates of the forms call."""
    world = world_of(visit)

    def users(found: Iterable[Any]) -> tuple[list[User], int]:
        shown: dict[tuple[str, str], int] = {}
        urls = {}
        for one in found:
            holder = holders.of_consumer(visit, one.consumer)
            key = holder.text, str(one.state)
            shown[key] = shown.get(key, 0) + one.devices
            urls[key] = holder.url
        listed = [User(key[0], urls[key], count, key[1]) for key, count in shown.items()]
        return listed[:_USERS], max(len(listed) - _USERS, 0)

    return {
        "kind": lambda resource: kind_of(resource, world),
        "device_url": lambda name: resources.url_of(name, world),
        "users": users,
        "user_of": lambda entry: (
            holders.of_consumer(visit, entry.consumer).text if entry.consumer is not None else ""
        ),
        "cause": lambda one: cause_words(visit, one),
        "amount": amount,
    }


def cause_words(visit: Visit, cause: Cause) -> str:
    """Why a node cannot have it, in few words."""
    subject = cause.subject
    if cause.kind == "devices":
        subject = kind_of(subject, world_of(visit)).title
    return visit.texts(
        f"vms.cause_{cause.kind}",
        subject=subject,
        wanted=amount(cause.wanted, cause.kind),
        free=amount(cause.free, cause.kind),
    )


def amount(count: int, what: str) -> str:
    """Bytes, thousandths of a processor, or a number."""
    if what == "memory":
        gib = count / 2**30
        return f"{gib:.0f} GiB" if gib >= 10 or gib == int(gib) else f"{gib:.1f} GiB"
    if what == "cpu":
        return f"{count / 1000:g}"
    return str(count)


def choosing(visit: Visit, typed: Typed, has: Iterable[str] = ()) -> Context:
    """What can be chosen, and what is; `has`: devices that the VM has already."""
    ledger, world = visit.ledger, world_of(visit)
    if ledger is None:
        nothing = {"choices": (), "devices": (), "more": False, "nodes": []}
        return {**nothing, "typed": typed, "most": MOST}
    chosen = typed.all("device")
    seen = resources.families(visit)
    devices, more = resources.devices(
        ledger, world, seen, node=typed.get("on"), text=typed.get("find"), chosen=chosen
    )
    had = frozenset(has)
    sees_nodes = visit.may(resources.LIST_NODES)
    return {
        "choices": resources.choices(ledger, world, seen),
        "devices": [one for one in devices if one.entry.device.name not in had],
        "more": more,
        "nodes": options({node for node, _ in ledger.stocks}) if sees_nodes else [],
        "typed": typed,
        "most": MOST,
    }


def options(names: Iterable[str]) -> list[tuple[str, str]]:
    """Names as a list to choose from has them."""
    return [(name, name) for name in sorted(names, key=natural)]


def problems(visit: Visit, error: Exception, fields: Typed) -> dict[str, list[str]]:
    """What a refusal of the API server says, by the field that it is about."""
    if isinstance(error, RefusedError):
        return {"detach": list(error.reasons)}
    if isinstance(error, OvertakenError):
        return {"": [visit.texts("vms.overtaken", why=str(error))]}
    if isinstance(error, AlreadyExistsError):
        return {"name": [visit.texts("vms.name_taken")]}
    found: dict[str, list[str]] = {}
    if isinstance(error, ForbiddenError) and (said := denial(error)):
        for text in [one.message for one in error.causes] or [said]:
            # What there is not enough of comes first.
            field = f"{COUNT}{text.partition(':')[0]}"
            known = field.removeprefix(COUNT) in fields.counts
            found.setdefault(field if known else "devices", []).append(text)
        return found
    if isinstance(error, ApiError) and any(one.field for one in error.causes):
        for one in error.causes:
            text = f"{one.field}: {one.message}" if one.field else one.message
            found.setdefault(field_of(one.field), []).append(text)
        return found
    return {"": [words_of(error)]}


def field_of(path: str) -> str:
    """The field of the form that shows a field of a VM; empty: none does."""
    return next((field for prefix, field in _FIELDS if path.startswith(prefix)), "")


REFUSED = (ChangeError, AlreadyExistsError, ForbiddenError, InvalidError)
"""What may be said about fields; any other error is about the whole form."""


def wrong(visit: Visit, typed: Typed) -> dict[str, list[str]]:
    """Problems of fields that hold no number of devices, and of devices that are there no more."""
    world = world_of(visit)
    found = {name: [visit.texts("vms.no_count", most=MOST)] for name in typed.wrong}
    gone = [name for name in typed.all("device") if not resources.resource_of(name, world)]
    if gone:
        found["devices"] = [visit.texts("vms.device_gone", name=name) for name in gone]
    return found
