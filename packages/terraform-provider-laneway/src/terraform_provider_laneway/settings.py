"""What the provider block of a configuration says, and what it configures."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

from terraform_provider_laneway.clusters import Choice, Clusters
from terraform_provider_laneway.problems import ProblemError


class Settings(NamedTuple):
    """The provider's configuration, as far as it is known."""

    cluster: Choice = Choice()
    management: Choice | None = None
    """Rancher's management cluster; None: the same cluster."""
    namespace: str | None = None
    """Of VMs; None: that of the context."""
    user_name: str = ""
    """In whose name devices are claimed; empty: that of the user who makes the claim."""

    @property
    def managing(self) -> Choice:
        return self.management or self.cluster

    def namespace_of(self, given: str | None) -> str:
        """The namespace of a VM. Raises ConfigError."""
        return given or self.namespace or self.cluster.load().namespace


class Configured(abc.ABC):
    """A resource or a data source, which the provider block configures."""

    name: ClassVar[str]
    about: ClassVar[str]
    """For the documentation, in Markdown."""
    attributes: ClassVar[tuple[Any, ...]]

    def __init__(self, provider: Any) -> None:
        self._clusters: Clusters = provider.clusters
        self._settings: Settings | None = provider.settings

    @property
    def settings(self) -> Settings:
        """Those of the provider block. Raises ProblemError."""
        if self._settings is None:
            raise ProblemError(
                "The provider is not configured",
                "The configuration of the provider depends on something that is not known yet. "
                "Apply that first: terraform apply -target=ADDRESS",
            )
        return self._settings

    @classmethod
    def get_name(cls) -> str:
        return cls.name
