"""What every data source shares: its schema, and how Terraform's calls become requests."""

from __future__ import annotations

from typing import Any, ClassVar

from tf.schema import Schema

from laneway.kube.client import Client
from terraform_provider_laneway.clusters import Clusters
from terraform_provider_laneway.problems import ProblemError, add, told
from terraform_provider_laneway.settings import Settings
from terraform_provider_laneway.values import State


class DataSource:
    """Something to read."""

    name: ClassVar[str]
    about: ClassVar[str]
    """For the documentation, in Markdown."""
    attributes: ClassVar[tuple[Any, ...]]

    def __init__(self, provider: Any) -> None:
        self._clusters: Clusters = provider.clusters
        self._settings: Settings | None = provider.settings

    async def found(self, client: Client, config: State) -> State:
        """The computed attributes. May raise what Laneway raises."""
        raise NotImplementedError

    def mistakes(self, config: State) -> list[ProblemError]:
        """What is wrong whatever the cluster has. Values may be unknown."""
        del config
        return []

    @property
    def settings(self) -> Settings:
        """Those of the provider block. Raises ProblemError."""
        if self._settings is None:
            raise ProblemError(
                "The provider is not configured",
                "The configuration of the provider depends on something that is not known yet.",
            )
        return self._settings

    @classmethod
    def get_name(cls) -> str:
        return cls.name

    @classmethod
    def get_schema(cls) -> Any:
        return Schema(version=0, description=cls.about, attributes=list(cls.attributes))

    def validate(self, diags: Any, _type_name: str, config: State) -> None:
        with told(diags):
            for problem in self.mistakes(config):
                add(diags, problem)

    def read(self, ctx: Any, config: State) -> State | None:
        with told(ctx.diagnostics):
            cluster = self.settings.cluster
            found = self._clusters.ask(cluster, lambda client: self.found(client, config))
            return {**config, **found}
        return None
