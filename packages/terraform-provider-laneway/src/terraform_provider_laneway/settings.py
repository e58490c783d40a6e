"""What the provider block of a configuration says."""

from __future__ import annotations

from typing import NamedTuple

from terraform_provider_laneway.clusters import Choice


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
