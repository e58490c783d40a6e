"""What every resource shares: its schema, and how Terraform's calls become requests.

A subclass has functions that look, judge, change and remove, and may raise what Laneway raises.
Here each of Terraform's calls becomes one of them, and each exception a diagnostic. A resource that
could not be changed stays in the state as it is on the cluster.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

from tf.schema import Attribute, Schema
from tf.types import Unknown

from laneway.changes.answered import denial
from laneway.changes.errors import TooLateError, UnfinishedError
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError
from terraform_provider_laneway import mistakes
from terraform_provider_laneway.clusters import Choice
from terraform_provider_laneway.problems import ProblemError, Told, add, notice
from terraform_provider_laneway.settings import Configured
from terraform_provider_laneway.values import NUMBER, TEXT, State, is_unknown, known

SECONDS = 300
LONGEST = 86_400


class ManagedResource(Configured):
    """A resource; each of its functions gets a client of the cluster that it is on."""

    key: ClassVar[tuple[str, ...]]
    """The attributes that make the id, which are joined by `/`."""
    subject: ClassVar[str]
    """The attribute that a refusal is about, where nothing says more."""
    seconds: ClassVar[int] = SECONDS
    """How long to wait where the attribute `timeout` is not set."""

    # ------------------------------------------------------------------------ of a subclass

    @abc.abstractmethod
    async def look(self, client: Client, state: State) -> State | None:
        """The attributes as they are on the cluster; None where the object does not exist."""

    @abc.abstractmethod
    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        """Change the cluster and wait. `current`: None for a resource that is new in Terraform."""

    @abc.abstractmethod
    async def remove(self, client: Client, current: State) -> None:
        """Undo it and wait."""

    @abc.abstractmethod
    def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        """What speaks against a configuration whose values are known. Changes nothing."""

    def mistakes(self, config: State) -> list[ProblemError]:
        """What is wrong whatever the cluster has. Values may be unknown."""
        del config
        return []

    def named(self, parts: list[str]) -> State:
        """The attributes of an id. Raises ProblemError."""
        if len(parts) != len(self.key) or not all(parts):
            raise ProblemError(
                "Invalid id", f"An id has the form {'/'.join(map(str.upper, self.key))}."
            )
        return dict(zip(self.key, parts, strict=True))

    @property
    def cluster(self) -> Choice:
        """Where the resource is."""
        return self.settings.cluster

    def patience(self, state: Mapping[str, Any]) -> int:
        """How many seconds to wait."""
        return int(state.get("timeout") or self.seconds)

    # ------------------------------------------------------------------------ of Terraform

    @classmethod
    def get_schema(cls) -> Any:
        return Schema(
            version=0,
            description=cls.about,
            attributes=[
                Attribute("id", TEXT, computed=True, description=_ID.format("/".join(cls.key))),
                *cls.attributes,
                Attribute(
                    "timeout",
                    NUMBER,
                    optional=True,
                    description="How many seconds to wait until the cluster is as described, or "
                    f"until nothing uses what is destroyed. Default: {cls.seconds}.",
                ),
            ],
        )

    def validate(self, diags: Any, _type_name: str, config: State) -> None:
        """Called twice: alone, and within a plan, where the cluster can be asked."""
        with Told(diags, [self.subject]):
            found = _timeout(config) + self.mistakes(config)
            for problem in found:
                add(diags, problem)
            if not found and self._settings is not None and known(config):
                self._clusters.run(self._judged(diags, config))

    async def _judged(self, diags: Any, config: State) -> None:
        client = await self._clusters.client(self.cluster)
        try:
            async for problem in self.check(client, config):
                add(diags, problem)
        except (ForbiddenError, TooLateError) as error:
            if isinstance(error, ForbiddenError) and denial(error):
                raise
            words = f"{error}. Whether the change is possible shows when it is applied."
            add(diags, notice("Not checked", words))

    def create(self, ctx: Any, planned: State) -> State | None:
        return self._write(ctx.diagnostics, planned, None)

    def update(self, ctx: Any, current: State, planned: State) -> State | None:
        return self._write(ctx.diagnostics, planned, current)

    def _write(self, diags: Any, planned: State, current: State | None) -> State | None:
        stored = current
        with Told(diags, [self.subject]):
            try:
                self._clusters.ask(
                    self.cluster, lambda client: self.apply(client, planned, current)
                )
            except UnfinishedError:
                stored = planned  # Terraform has to know of what was accepted.
                raise
            stored = planned
        if stored is None:
            return None
        with Told(diags):
            return self._seen(stored)
        return _without_unknown(stored)

    def _seen(self, state: State) -> State | None:
        said = _without_unknown(state)
        found = self._clusters.ask(self.cluster, lambda client: self.look(client, said))
        return None if found is None else {**found, "timeout": said.get("timeout")}

    def read(self, ctx: Any, current: State) -> State | None:
        with Told(ctx.diagnostics):
            return self._seen(current)
        return current

    def plan(self, ctx: Any, _current: State | None, planned: State) -> State:
        """What follows from a change is known only afterwards."""
        if ctx.changed_fields - {"timeout"}:
            for one in self.attributes:
                if one.computed and not one.optional:
                    planned[one.name] = Unknown
        return planned

    def delete(self, ctx: Any, current: State) -> State | None:
        with Told(ctx.diagnostics, [self.subject]):
            self._clusters.ask(self.cluster, lambda client: self.remove(client, current))
            return None
        return current

    def import_(self, ctx: Any, id: str) -> State | None:  # noqa: A002 - as `tf` calls it
        with Told(ctx.diagnostics):
            nothing = {one.name: None for one in self.attributes}
            return {**nothing, "timeout": None, "id": id, **self.named(id.split("/"))}
        return None

    def upgrade(self, _ctx: Any, _version: int, old: State) -> State:
        return old


def _timeout(config: State) -> list[ProblemError]:
    return mistakes.number(config, "timeout", 1, LONGEST, form="whole seconds")


_ID = "`{}`, as `terraform import` takes it."


def _without_unknown(state: State) -> State:
    return {name: None if is_unknown(value) else value for name, value in state.items()}
