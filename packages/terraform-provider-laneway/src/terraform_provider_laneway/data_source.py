"""What every data source shares: its schema, and how Terraform's calls become requests."""

from __future__ import annotations

import abc
from typing import Any

from tf.schema import Schema

from laneway.kube.client import Client
from terraform_provider_laneway.problems import ProblemError, Told, add, incomplete
from terraform_provider_laneway.settings import Configured
from terraform_provider_laneway.values import State


class DataSource(Configured):
    """Something to read."""

    @abc.abstractmethod
    async def found(self, client: Client, config: State, unknown: list[str]) -> State:
        """The computed attributes. What cannot be read, and what follows, goes to `unknown`.

        May raise what Laneway raises.
        """

    def mistakes(self, config: State) -> list[ProblemError]:
        """What is wrong whatever the cluster has. Values may be unknown."""
        del config
        return []

    @classmethod
    def get_schema(cls) -> Any:
        return Schema(version=0, description=cls.about, attributes=list(cls.attributes))

    def validate(self, diags: Any, _type_name: str, config: State) -> None:
        with Told(diags):
            for problem in self.mistakes(config):
                add(diags, problem)

    def read(self, ctx: Any, config: State) -> State | None:
        with Told(ctx.diagnostics):
            cluster, unknown = self.settings.cluster, list[str]()
            found = self._clusters.ask(cluster, lambda client: self.found(client, config, unknown))
            for why in unknown:
                add(ctx.diagnostics, incomplete(why))
            return {**config, **found}
        return None
