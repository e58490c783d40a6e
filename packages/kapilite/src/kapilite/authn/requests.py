"""How service accounts come by their tokens: on request, or in a Secret of the older kind."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite import problems as problem
from kapilite.authn.tokens import ISSUER, Bound
from kapilite.errors import ApiError, NotFound
from kapilite.problems import Problem
from kapilite.storage.events import Key, as_object
from kubebasics.timestamps import timestamp

if TYPE_CHECKING:
    from kapilite.authn.tokens import ServiceAccountTokens
    from kapilite.storage.store import Store

Object = dict[str, Any]

GROUP = "authentication.k8s.io"
SECRET_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - the name of a type
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"

DEFAULT_SECONDS = 3600
SHORTEST_SECONDS = 600
LONGEST_SECONDS = 2**32

_BOUND = {"Pod": ("pod", "pods"), "Secret": ("secret", "secrets"), "Node": ("node", "nodes")}


class _Reference(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    audiences: list[str] | None = None
    expiration_seconds: int | None = None
    bound_object_ref: _Reference | None = None


def answer(
    obj: Object, *, store: Store, tokens: ServiceAccountTokens, namespace: str, name: str
) -> Object:
    """The TokenRequest for a service account with its token; `dryRun` gets one like any other."""
    account = _get(store, "serviceaccounts", namespace, name)
    spec = _spec(obj)
    _require_same(obj.get("metadata") or {}, namespace, name)
    audiences = spec.audiences or [ISSUER]
    seconds = DEFAULT_SECONDS if spec.expiration_seconds is None else spec.expiration_seconds
    _require_sensible(seconds)
    bound = _bound(spec.bound_object_ref, store, account) if spec.bound_object_ref else {}
    # Taken before the token is made, so that the answer never shows a later end than the token has.
    now = datetime.now(UTC)
    token = tokens.issue(account, seconds=seconds, audiences=audiences, bound=bound)
    return {
        "kind": "TokenRequest",
        "apiVersion": f"{GROUP}/v1",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": timestamp(now)},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": (obj.get("spec") or {}).get("boundObjectRef"),
        },
        "status": {
            "token": token,
            "expirationTimestamp": timestamp(now + timedelta(seconds=seconds)),
        },
    }


def fill_secret(
    secret: Object, *, store: Store, tokens: ServiceAccountTokens, ca_pem: bytes
) -> None:
    """Put token, authority and namespace into a Secret of the older kind, where they are missing.

    It must name a service account that exists, and may name its uid. Until it does it stays as it
    is: a Secret without a token has no effect.
    """
    meta = secret["metadata"]
    annotations = meta.get("annotations") or {}
    if secret.get("type") != SECRET_TYPE or not annotations.get(ACCOUNT_NAME):
        return
    stored = store.get(Key("serviceaccounts", meta["namespace"], annotations[ACCOUNT_NAME]))
    if stored is None:
        return
    account = as_object(stored.body)
    uid = account["metadata"]["uid"]
    if annotations.get(ACCOUNT_UID, uid) != uid:
        return
    meta["annotations"] = {**annotations, ACCOUNT_UID: uid}
    data = secret["data"] = dict(secret.get("data") or {})
    wanted = {"ca.crt": ca_pem, "namespace": meta["namespace"].encode()}
    if not data.get("token"):
        wanted["token"] = tokens.issue_for_secret(account, secret).encode()
    for key, value in wanted.items():
        data[key] = base64.b64encode(value).decode()


def _spec(obj: Object) -> _Spec:
    try:
        found = obj.get("spec") or {}
        reference = found.get("boundObjectRef")
        if isinstance(reference, dict):
            given = {key: value for key, value in reference.items() if value is not None}
            found = {**found, "boundObjectRef": given}
        return msgspec.convert(found, _Spec)
    except (msgspec.ValidationError, AttributeError) as error:
        what = 'TokenRequest in version "v1" cannot be handled as a TokenRequest'
        raise ApiError(400, "BadRequest", f"{what}: spec: {error}") from error


def _require_same(meta: Any, namespace: str, name: str) -> None:
    if not isinstance(meta, dict):
        raise ApiError(400, "BadRequest", "metadata must be an object")
    for field, wanted in (("name", name), ("namespace", namespace)):
        sent = meta.get(field)
        if sent and sent != wanted:
            text = f"must match the service account {field} if specified"
            raise _invalid(problem.invalid(f"metadata.{field}", sent, text), name)


def _require_sensible(seconds: int) -> None:
    field = "spec.expirationSeconds"
    if seconds < SHORTEST_SECONDS:
        text = "may not specify a duration less than 10 minutes"
        raise _invalid(problem.invalid(field, seconds, text))
    if seconds > LONGEST_SECONDS:
        text = "may not specify a duration larger than 2^32 seconds"
        raise _invalid(problem.invalid(field, seconds, text))


def _bound(reference: _Reference, store: Store, account: Object) -> dict[str, Bound]:
    """What the token is to live and die with, and the node of a pod, for others to know."""
    if reference.api_version != "v1" or reference.kind not in _BOUND:
        group, _, version = reference.api_version.rpartition("/")
        kind = f"{group}/{version}, Kind={reference.kind}"
        raise ApiError(400, "BadRequest", f"cannot bind token to object of type {kind}")
    role, resource = _BOUND[reference.kind]
    meta = account["metadata"]
    namespace = "" if role == "node" else meta["namespace"]
    found = _get(store, resource, namespace, reference.name)
    uid = found["metadata"]["uid"]
    if role == "pod" and (found.get("spec") or {}).get("serviceAccountName") != meta["name"]:
        text = (
            f'cannot bind token for serviceaccount "{meta["name"]}" to pod running with '
            "different serviceaccount name."
        )
        raise ApiError(400, "BadRequest", text)
    if reference.uid and reference.uid != uid:
        text = (
            f'Operation cannot be fulfilled on {reference.kind} "{reference.name}": the UID in the '
            f"bound object reference ({reference.uid}) does not match the UID in record. The "
            "object might have been deleted and then recreated"
        )
        raise ApiError(409, "Conflict", text, name=reference.name, kind=reference.kind)
    bound = {role: Bound(reference.name, uid)}
    node_name = (found.get("spec") or {}).get("nodeName") if role == "pod" else ""
    if node_name and (node := store.get(Key("nodes", "", node_name))):
        bound["node"] = Bound(node_name, as_object(node.body)["metadata"]["uid"])
    return bound


def _get(store: Store, resource: str, namespace: str, name: str) -> Object:
    stored = store.get(Key(resource, namespace, name))
    if stored is None:
        raise NotFound(f'{resource} "{name}" not found', name=name, kind=resource)
    return as_object(stored.body)


def _invalid(found: Problem, name: str = "") -> ApiError:
    details: dict[str, Any] = {"name": name} if name else {}
    return ApiError(
        422,
        "Invalid",
        f'TokenRequest.{GROUP} "{name}" is invalid: {found.field}: {found.message}',
        **details,
        group=GROUP,
        kind="TokenRequest",
        causes=[found._asdict()],
    )
