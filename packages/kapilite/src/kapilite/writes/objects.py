"""An object between a client and the store: taken in, made complete, checked.

These are the steps that creating and updating have in common, each a function of the object and
what it replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kapilite import builtin, metadata, problems
from kapilite.admission import problems as admission
from kapilite.authn import SYSTEM, User
from kapilite.authorization import validation as authorization
from kapilite.builtin import convert, types
from kapilite.definitions import crds
from kapilite.encodings.bounds import OBJECT_LIMIT, require_bounded
from kapilite.errors import ApiError, NotFound, Undecodable
from kapilite.problems import rejected
from kapilite.schemas import embedded, ratcheting, scales, validation
from kapilite.storage.events import Key

if TYPE_CHECKING:
    from kapilite.kinds import Kind
    from kapilite.registry import Registry
    from kapilite.writes.subresources import Subresource

Object = dict[str, Any]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a write is to be done, and by whom."""

    dry_run: bool = False
    field_validation: str = "Warn"
    manager: str = "kapilite"
    """Who owns the fields that are written: `fieldManager`, or the first word of the user agent."""
    force: bool = False
    """Of an apply: take over fields that others own."""
    user: User = SYSTEM

    def as_sent(self, operation: str) -> Object:
        """`CreateOptions` or `UpdateOptions`, as webhooks are shown them."""
        found: Object = {
            "apiVersion": "meta.k8s.io/v1",
            "kind": f"{operation.capitalize()}Options",
            "fieldManager": self.manager,
            "fieldValidation": self.field_validation,
        }
        return found | ({"dryRun": ["All"]} if self.dry_run else {})


class Outcome(NamedTuple):
    """The object as it is now stored, and what the client should be warned of."""

    body: bytes
    warnings: tuple[str, ...] = ()


def key_of(kind: Kind, namespace: str, name: str) -> Key:
    return Key(kind.storage, namespace if kind.namespaced else "", name)


def not_found(kind: Kind, name: str) -> NotFound:
    text = f'{kind.resource} "{name}" not found'
    return NotFound(text, name=name, group=kind.group, kind=kind.plural)


def conflict(kind: Kind, name: str, why: str) -> ApiError:
    text = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return ApiError(409, "Conflict", text, name=name, group=kind.group, kind=kind.plural)


MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def take_in(kind: Kind, namespace: str, obj: Object) -> Object:
    """The client's object with its identity checked against the address it was sent to."""
    require_bounded(obj, OBJECT_LIMIT)  # a patch can make more of an object than was sent
    _require_type(kind, obj)
    obj = {**obj, "apiVersion": kind.api_version, "kind": kind.kind}
    meta = metadata.decode(kind, obj)
    if not kind.namespaced:
        if meta.pop("namespace", None):
            text = "namespace is not allowed on this type: it is cluster-scoped"
            raise ApiError(400, "BadRequest", text)
    elif (meta.get("namespace") or namespace) != namespace:
        text = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise ApiError(400, "BadRequest", text)
    else:
        meta["namespace"] = namespace
    convert.take_in(kind, obj)
    return obj


def _require_type(kind: Kind, obj: Object) -> None:
    version, name = obj.get("apiVersion"), obj.get("kind")
    for field, sent, known in (("apiVersion", version, kind.custom), ("Kind", name, kind.custom)):
        if known and not sent:
            raise Undecodable(f"Object '{field}' is missing")
        if sent is not None and not isinstance(sent, str):
            raise Undecodable(f"{field} must be a text")
    if version and version.count("/") > 1:
        raise Undecodable(f"unexpected GroupVersion string: {version}")
    if version not in (None, "", kind.api_version):
        text = (
            f"the API version in the data ({version}) does not match the expected API version "
            f"({kind.api_version})"
        )
        raise Undecodable(text)
    if name in (None, "", kind.kind):
        return
    if kind.custom:
        problem = problems.invalid("kind", name, f"must be {kind.kind}")
        raise rejected(kind, _sent_name(obj), [problem])
    group = kind.group.partition(".")[0] or "core"
    if types.exists(f"{group}.{kind.version}.{name}"):
        text = f'{name} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise Undecodable(text)
    raise Undecodable(f'no kind "{name}" is registered for version "{kind.api_version}"')


def _sent_name(obj: Object) -> str:
    meta = obj.get("metadata")
    return str(meta.get("name") or "") if isinstance(meta, dict) else ""


def complete(kind: Kind, obj: Object, options: Options) -> tuple[str, ...]:
    """Prune and default in place; warnings, or an error, name the fields that are not known."""
    unknown = metadata.unknown(obj["metadata"])
    if types.name_of(kind) is not None:
        unknown += builtin.complete(kind, obj)
    elif kind.schema is not None:
        unknown += embedded.complete(kind.schema, obj)
    if kind.resource == builtin.CRDS:
        crds.default_names(obj)
    texts = tuple(f'unknown field "{path}"' for path in unknown)
    if texts and options.field_validation == "Strict":
        what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise ApiError(400, "BadRequest", f"{what}: strict decoding error: {', '.join(texts)}")
    return texts if options.field_validation == "Warn" else ()


def check(kind: Kind, obj: Object, old: Object | None, registry: Registry) -> None:
    """Raise `Invalid` with every cause that keeps the object from being stored."""
    found = list(metadata.problems(kind, obj["metadata"], old["metadata"] if old else None))
    if kind.custom and kind.schema is not None:  # others have been decoded by their types
        before = ratcheting.ABSENT if old is None else old
        wrong = validation.problems(kind.schema, obj, before)
        found += [one._replace(field=one.field or "<nil>") for one in wrong]
        if kind.scale is not None:
            found += scales.problems(kind.scale, obj)
    if kind.resource == builtin.CRDS:
        found += crds.problems(obj, old, registry.kinds)
    elif not kind.custom:
        found += builtin.problems(kind, obj, old)
        found += admission.problems(kind, obj)
        found += authorization.problems(kind, obj, old)
    if found:
        raise rejected(kind, obj["metadata"].get("name", ""), found)


def to_storage(kind: Kind, obj: Object) -> Object:
    """The form in which the object is kept, whatever version it was sent in."""
    if kind.view_of:
        return convert.to_storage(kind, obj)
    if not kind.storage_version or kind.storage_version == kind.version:
        return obj
    return {**obj, "apiVersion": f"{kind.group}/{kind.storage_version}"}


def has_generation(kind: Kind) -> bool:
    return kind.custom or kind.group in _WITH_GENERATION or kind.resource in _KINDS_WITH_GENERATION


def desired(kind: Kind, obj: Object) -> Object:
    """What `generation` counts the changes of: everything but metadata and status."""
    hidden = ("apiVersion", "metadata", "status") if kind.has_status else ("apiVersion", "metadata")
    return {name: value for name, value in obj.items() if name not in hidden}


_WITH_GENERATION = frozenset({"apps", "batch", "policy", "admissionregistration.k8s.io"})
_KINDS_WITH_GENERATION = frozenset(
    {
        builtin.CRDS,
        "deviceclasses.resource.k8s.io",
        "networkpolicies.networking.k8s.io",
        "resourceslices.resource.k8s.io",
    }
)


class Subject(NamedTuple):
    """The object to which something is to be done."""

    kind: Kind
    namespace: str
    name: str


class Target(NamedTuple):
    """One object to be changed, at one of its addresses."""

    kind: Kind
    at: Subresource
    namespace: str
    name: str


def match(what: Target, sent: Object, old: Object) -> None:
    """Refuse what was meant for another object, or for another state of this one.

    Raises a Conflict that names what differs.
    """
    meta, before = sent["metadata"], old["metadata"]
    require_name(what.name, meta)
    if meta.get("resourceVersion") not in (None, "", before["resourceVersion"]):
        raise conflict(what.kind, what.name, MODIFIED)
    if meta.get("uid") not in (None, "", before["uid"]):
        why = (
            f"Precondition failed: UID in precondition: {meta['uid']}, "
            f"UID in object meta: {before['uid']}"
        )
        raise conflict(what.kind, what.name, why)


def require_name(wanted: str, meta: dict[str, Any]) -> None:
    """The name in the data, if any, must be that of the address."""
    name = meta.setdefault("name", wanted)
    if name != wanted:
        text = f"the name of the object ({name}) does not match the name on the URL ({wanted})"
        raise ApiError(400, "BadRequest", text)


def settle(kind: Kind, obj: Object, old: Object | None, registry: Registry) -> None:
    """Fill in the parts that follow from the others, of an object that is known to be good."""
    if kind.resource == builtin.CRDS:
        obj["status"] = crds.established(obj, old, registry.kinds)
    builtin.fill_in(kind, obj, old)
