"""The definitions that all kinds share: object and list metadata, described for `explain`."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."

_API_VERSION = "Group and version of the schema in which this object is written."
_KIND = "The kind of object, in CamelCase. It cannot be changed."
_OF_METADATA = {
    "ObjectMeta": "Name, labels and everything else that every object has.",
    "ListMeta": "Version of the list, and how to go on where it was cut.",
}


def standard_fields(prefix: str, metadata: str) -> Json:
    """`apiVersion`, `kind` and `metadata`, the last referring to `ObjectMeta` or `ListMeta`."""
    return {
        "apiVersion": _string(_API_VERSION),
        "kind": _string(_KIND),
        "metadata": _ref(prefix, metadata, _OF_METADATA[metadata]),
    }


def schemas(prefix: str) -> Json:
    """The shared definitions by name; `prefix` is where references find them."""
    time = {
        "description": "A moment in RFC 3339 form.",
        "type": "string",
        "format": "date-time",
    }
    fields_v1 = {
        "description": "A set of fields, as a tree of their names.",
        "type": "object",
    }
    return {
        "io.k8s.apimachinery.pkg.api.resource.Quantity": {
            "description": "An amount such as 500m, 2 or 1Gi.",
            **_either(prefix, "number"),
        },
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
            "description": "A number, or a text such as a percentage or the name of a port.",
            "format": "int-or-string",
            **_either(prefix, "integer"),
        },
        f"{_META}MicroTime": {**time, "description": "A moment, to the microsecond."},
        f"{_META}Time": time,
        f"{_META}FieldsV1": fields_v1,
        f"{_META}ObjectMeta": _object(
            "Metadata that every stored object has.", _object_meta(prefix)
        ),
        f"{_META}ListMeta": _object("Metadata of a list.", _list_meta()),
        f"{_META}OwnerReference": _object(
            "The object to which another belongs. When all owners are gone, so is what they own.",
            _owner_reference(),
            required=("apiVersion", "kind", "name", "uid"),
        ),
        f"{_META}ManagedFieldsEntry": _object(
            "The fields that one client manages.", _managed_fields(prefix)
        ),
    }


def _either(prefix: str, other: str) -> Json:
    """A text or something else; OpenAPI 2 can only say that it is a text."""
    if prefix.startswith("#/definitions/"):
        return {"type": "string"}
    return {"oneOf": [{"type": other}, {"type": "string"}]}


def _object_meta(prefix: str) -> Json:
    return {
        "annotations": _map(
            "Notes of tools and people, kept with the object. Selectors cannot ask for them."
        ),
        "creationTimestamp": _ref(
            prefix, "Time", "When the object was created. Set by the server."
        ),
        "deletionGracePeriodSeconds": _integer(
            "Seconds that the object may take to end. Set only once its deletion was requested."
        ),
        "deletionTimestamp": _ref(
            prefix,
            "Time",
            "When deletion was requested. The object is removed once its finalizers are gone.",
        ),
        "finalizers": {
            "description": "What must still be done before the object can be removed. Each name is "
            "taken away by the controller that put it there.",
            "type": "array",
            "items": {"type": "string"},
            "x-kubernetes-list-type": "set",
        },
        "generateName": _string(
            "Beginning of the name that the server makes up when `name` is not given."
        ),
        "generation": _integer("Counts the changes of the desired state. Set by the server."),
        "labels": _map("Keys and values by which objects are organised and selected."),
        "managedFields": {
            "description": "Which client manages which fields. For server-side apply; rarely read "
            "by people.",
            "type": "array",
            "items": {"$ref": f"{prefix}{_META}ManagedFieldsEntry"},
        },
        "name": _string("Unique among objects of a kind in a namespace. It cannot be changed."),
        "namespace": _string(
            "The space within which the name is unique; empty for kinds of the whole cluster. "
            "It cannot be changed."
        ),
        "ownerReferences": {
            "description": "The objects to which this one belongs. When all of them are gone, it "
            "is removed.",
            "type": "array",
            "items": {"$ref": f"{prefix}{_META}OwnerReference"},
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-list-type": "map",
        },
        "resourceVersion": _string(
            "Changes with every write. Sent back with an update, it keeps two writers from undoing "
            "each other's work. Clients must not interpret it."
        ),
        "selfLink": _string("No longer set."),
        "uid": _string(
            "Tells this object from others that had its name before. Set by the server."
        ),
    }


def _list_meta() -> Json:
    return {
        "continue": _string("Token for the next part of a list that was cut by `limit`."),
        "remainingItemCount": _integer("How many objects follow, where the server can tell."),
        "resourceVersion": _string("The version of the list; a watch can start from it."),
        "selfLink": _string("No longer set."),
    }


def _owner_reference() -> Json:
    return {
        "apiVersion": _string("Group and version of the owner."),
        "blockOwnerDeletion": {
            "description": "Whether the owner waits for this object in a foreground deletion.",
            "type": "boolean",
        },
        "controller": {
            "description": "Whether the owner is the controller that manages this object.",
            "type": "boolean",
        },
        "kind": _string("Kind of the owner."),
        "name": _string("Name of the owner."),
        "uid": _string("The owner's uid, so that a namesake is not taken for it."),
    }


def _managed_fields(prefix: str) -> Json:
    return {
        "apiVersion": _string("The version in which the fields are named."),
        "fieldsType": _string("The form of `fieldsV1`; always FieldsV1."),
        "fieldsV1": _ref(prefix, "FieldsV1", "The fields."),
        "manager": _string("Name of the client."),
        "operation": _string("Apply or Update."),
        "subresource": _string("The subresource through which the fields were written, if any."),
        "time": _ref(prefix, "Time", "When the client last wrote them."),
    }


def _object(description: str, properties: Json, required: tuple[str, ...] = ()) -> Json:
    found: Json = {"description": description, "type": "object", "properties": properties}
    return found | {"required": list(required)} if required else found


def _ref(prefix: str, name: str, description: str) -> Json:
    return {"description": description, "allOf": [{"$ref": f"{prefix}{_META}{name}"}]}


def _string(description: str) -> Json:
    return {"description": description, "type": "string"}


def _integer(description: str) -> Json:
    return {"description": description, "type": "integer", "format": "int64"}


def _map(description: str) -> Json:
    return {
        "description": description,
        "type": "object",
        "additionalProperties": {"type": "string"},
    }
