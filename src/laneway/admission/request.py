"""What the API server asks about, as rules see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic

from laneway.api import GROUP
from laneway.kube.resource import T_co


class Operation(StrEnum):
    """What is done to the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks, as the API server knows them."""

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] | None = None


@dataclass(frozen=True, slots=True)
class Request(Generic[T_co]):
    """One object that is to be written.

    `new` is there but for a deletion, `old` but for a creation.
    """

    operation: Operation
    name: str
    namespace: str
    requester: Requester
    old: T_co | None = None
    new: T_co | None = None
    dry_run: bool = False

    @property
    def object(self) -> T_co:
        """As it is to be; of a deletion, as it was."""
        found = self.new if self.new is not None else self.old
        if found is None:
            raise ValueError(f"a request about {self.name} that holds no object")
        return found


@dataclass(frozen=True, slots=True)
class Access:
    """A right that a rule needs; on a resource of Laneway's, unless the group is another one."""

    verb: str
    resource: str
    name: str
    subject: Requester | None = None
    """None: of the requester."""
    namespace: str = ""
    group: str = GROUP
