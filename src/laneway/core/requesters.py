"""The users who request a workload's devices, as its annotation says.

KubeVirt makes pods and a kubelet requests devices without saying for whom. So admission notes on
what requests devices who wrote it, as the API server knows them: on a VirtualMachine, from which it
comes to the VirtualMachineInstance and its pod, and on any other pod. No other client may write the
annotation: what carries it is stored only after admission has seen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from laneway.core import keys

MOST = 8
"""So many users may have given one VM devices, one after the other."""


class User(msgspec.Struct, frozen=True):
    """A user as the API server knows them."""

    username: str
    groups: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(tuple[User, ...]).decode


def read(annotations: Mapping[str, str]) -> tuple[User, ...]:
    """The users that annotations name; empty where they name none, or are invalid."""
    try:
        return _decode(annotations.get(keys.ANNOTATION_REQUESTERS, "[]"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()


def written(users: Iterable[User]) -> str:
    """What the annotation says of them; empty for no users."""
    found = {one.username: one for one in users if one.username}
    latest = tuple(found.values())[-MOST:]
    return msgspec.json.encode(latest).decode() if latest else ""


def service_account(namespace: str, name: str) -> User:
    """The account as which the containers of a pod are known; `default` where it names none."""
    return User(
        f"system:serviceaccount:{namespace}:{name or 'default'}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
    )
