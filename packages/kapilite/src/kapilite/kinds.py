"""What a served resource is: the description that storage, tables, discovery and OpenAPI share."""

from __future__ import annotations

from typing import Any

import msgspec


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A printer column of `kubectl get`."""

    name: str
    type: str
    json_path: str
    """Of built-in kinds, empty where `printers` makes the cell."""
    description: str = ""
    format: str = ""
    priority: int = 0


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Where the scale subresource of a custom resource finds its numbers, as paths of names."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    label_selector: tuple[str, ...] = ()
    """Empty: the scale shows no selector."""


CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which Kubernetes names those of custom resources."""

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one served version."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    list_name: str = ""
    """The kind of a list, where it is not the kind with `List`."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    """After Name; a kind without any shows its Age."""
    schema: dict[str, Any] | None = None
    """Structural OpenAPI v3 schema; None stores anything."""
    has_status: bool = False
    """The status subresource exists."""
    scale: Scale | None = None
    """The scale subresource exists."""
    subresources: tuple[str, ...] = ()
    """What a built-in kind has besides status and scale: `binding`, `finalize`, `token`."""
    verbs: tuple[str, ...] = VERBS
    stored: bool = True
    """False: a question that is answered, such as SelfSubjectAccessReview, and never kept."""
    view_of: str = ""
    """The resource whose stored objects these are, in another form; empty: they are their own."""
    storage_version: str = ""
    """The version in which objects are stored; empty means this one."""
    selectable: tuple[str, ...] = ()
    """Fields besides the name and the namespace by which a field selector may choose."""
    warnings: tuple[str, ...] = ()
    """A warning to every client, such as that the version is deprecated."""
    custom: bool = False
    """Defined by a CustomResourceDefinition."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`pcidevices.devices.harvesterhci.io`, the form that error messages use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage(self) -> str:
        """The resource under which the objects lie in the store."""
        return self.view_of or self.resource

    @property
    def list_kind(self) -> str:
        return self.list_name or f"{self.kind}List"
