"""The provider: where it connects to, and what it has."""

from __future__ import annotations

from typing import Any

from tf.schema import Attribute, Schema

from terraform_provider_laneway import functions
from terraform_provider_laneway.clusters import Choice, Clusters
from terraform_provider_laneway.problems import ProblemError, Told, add
from terraform_provider_laneway.registered import DATA_SOURCES, RESOURCES
from terraform_provider_laneway.settings import Settings
from terraform_provider_laneway.values import TEXT, State, known

SOURCE = "terraform.local/laneway/laneway"
"""The provider's address in `required_providers`: host, namespace and type."""

ABOUT = """\
Brings GPUs, vGPUs, PCI and USB devices of a Harvester or KubeVirt cluster to VMs, and to the \
machine pools of guest clusters.

The provider does what the user of the kubeconfig may do. Changes are judged by the rules of \
`laneway`, and refused in its words, before anything is written."""

ATTRIBUTES = (
    Attribute(
        "kubeconfig",
        TEXT,
        optional=True,
        description="The kubeconfig file of the cluster with the GPUs. Default: `$KUBECONFIG`, "
        "`~/.kube/config`, or the service account of the pod.",
    ),
    Attribute(
        "context",
        TEXT,
        optional=True,
        description="The context of the kubeconfig. Default: the current context.",
    ),
    Attribute(
        "namespace",
        TEXT,
        optional=True,
        description="The namespace of VMs. Default: that of the context.",
    ),
    Attribute(
        "user_name",
        TEXT,
        optional=True,
        description="The user in whose name devices are claimed. Another user than that of the "
        "kubeconfig needs the right to `administer` claims. Default: the user of the kubeconfig.",
    ),
    Attribute(
        "management_kubeconfig",
        TEXT,
        optional=True,
        description="The kubeconfig file of Rancher's management cluster, for the machine pools of "
        "guest clusters. Default: `kubeconfig`.",
    ),
    Attribute(
        "management_context",
        TEXT,
        optional=True,
        description="The context of that kubeconfig. Default: its current context.",
    ),
)


class Provider:
    """What `tf` serves to Terraform."""

    def __init__(self) -> None:
        self.clusters = Clusters()
        self.settings: Settings | None = None
        """None: not configured yet, or by something that is not known yet."""

    def get_model_prefix(self) -> str:
        return "laneway_"

    def full_name(self) -> str:
        return SOURCE

    def get_provider_schema(self, _diags: Any) -> Any:
        return Schema(version=0, description=ABOUT, attributes=list(ATTRIBUTES))

    def validate_config(self, diags: Any, config: State) -> None:
        for name, value in (config or {}).items():
            if value == "":
                words = "The text is empty. Leave the attribute out for its default."
                add(diags, ProblemError(f"Invalid {name}", words, [name]))

    def configure_provider(self, diags: Any, config: State) -> None:
        given = config or {}
        if not known(given):
            self.settings = None
            return
        with Told(diags, ["kubeconfig"]):
            kubeconfig, context = given.get("kubeconfig"), given.get("context")
            other = given.get("management_kubeconfig"), given.get("management_context")
            found = Settings(
                cluster=Choice(kubeconfig, context),
                management=Choice(other[0] or kubeconfig, other[1]) if any(other) else None,
                namespace=given.get("namespace"),
                user_name=given.get("user_name") or "",
            )
            found.cluster.load()
            found.managing.load()
            self.settings = found

    def get_resources(self) -> list[Any]:
        return list(RESOURCES)

    def get_data_sources(self) -> list[Any]:
        return list(DATA_SOURCES)

    def get_functions(self) -> list[Any]:
        return list(functions.ALL)

    def new_resource(self, kind: Any) -> Any:
        return kind(self)

    def new_data_source(self, kind: Any) -> Any:
        return kind(self)

    def new_function(self, kind: Any) -> Any:
        return kind()
