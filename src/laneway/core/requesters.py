"""On whose behalf a workload requests devices, as its annotation says.

KubeVirt makes pods and a kubelet requests devices without saying for whom. So admission notes on
what requests devices who wrote it, as the API server knows them: on a VirtualMachine, whence it
comes to the VirtualMachineInstance and its pod, and on any other pod. Nobody else may write the
annotation: what carries it is stored only after admission has seen it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from laneway.core import keys

MOST = 8
"""So many users may have given one VM devices, one after the other."""


class User(msgspec.Struct, frozen=True):
    """Somebody as the API server knows them."""

    username: str
    groups: tuple[str, ...] = ()


_decode = msgspec.json.Decoder(tuple[User, ...]).decode


def read(annotations: Mapping[str, str]) -> tuple[User, ...]:
    """The users that annotations name; nobody where they say none, or nonsense."""
    try:
        return _decode(annotations.get(keys.ANNOTATION_REQUESTERS, "[]"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ()


def written(users: Iterable[User]) -> str:
    """What the annotation says of them; empty for nobody."""
    found = {one.username: one for one in users if one.username}
    latest = tuple(found.values())[-MOST:]
    return msgspec.json.encode(latest).decode() if latest else ""


def service_account(namespace: str, name: str) -> User:
    """The account as which the containers of a pod are known; `default` where it names none."""
    return User(
        f"system:serviceaccount:{namespace}:{name or 'default'}",
        ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
    )
