"""What the client sends and what it wants back.

Bodies come as JSON, YAML or protobuf; anything else is 415, with the types that would do. What
comes back is JSON, or on request YAML, a Table (what kubectl prints) or only the metadata. Clients
list several forms in Accept in order of preference, so the first one that is known counts; one
that takes protobuf alone is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kapilite import protobuf
from kapilite.encodings.bounds import DEPTH_LIMIT, VALUES_LIMIT, require_bounded
from kapilite.errors import ApiError
from kubebasics import yaml_text

if TYPE_CHECKING:
    from collections.abc import Sequence

JSON = "application/json"
YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
Shape = Literal["object", "table", "metadata"]

_SHAPES: dict[str, Shape] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


_TRANSFORMS = (("meta.k8s.io", "v1"), ("meta.k8s.io", "v1beta1"))
"""Group and version of tables and of metadata alone; the older is answered in the newer."""


class Form(msgspec.Struct, frozen=True):
    """How an answer is written."""

    media_type: str = JSON
    shape: Shape = "object"


def form(accept: str) -> Form:
    """The first form in Accept that can be made."""
    if not accept:
        return Form()
    for option in accept.split(","):
        media_type, *rest = (part.strip() for part in option.split(";"))
        parameters = dict(part.partition("=")[::2] for part in rest)
        shape = _SHAPES.get(parameters.get("as", ""))
        if shape == "object" or (
            shape and (parameters.get("g"), parameters.get("v")) in _TRANSFORMS
        ):
            if media_type in (JSON, "*/*", "application/*"):
                return Form(JSON, shape)
            if media_type == YAML:
                return Form(YAML, shape)
    text = f"only the following media types are accepted: {JSON}, {YAML}"
    raise ApiError(406, "NotAcceptable", text)


def encode(value: Any, media_type: str) -> bytes:
    if media_type == YAML:
        return yaml_text.write(value).encode()
    return msgspec.json.encode(value)


def unsupported(accepted: Sequence[str]) -> ApiError:
    text = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiError(415, "UnsupportedMediaType", text)


def decode(body: bytes, media_type: str) -> Any:
    """The value in a request body."""
    base = media_type.partition(";")[0].strip().lower() or JSON
    if base not in (JSON, YAML, PROTOBUF):
        raise unsupported((JSON, YAML, PROTOBUF))
    value = protobuf.decode(body) if base == PROTOBUF else _text(body, base)
    require_bounded(value)
    return value


def _text(body: bytes, base: str) -> Any:
    try:
        if base == YAML:
            return yaml_text.read(body, values=VALUES_LIMIT, depth=DEPTH_LIMIT)
        return msgspec.json.decode(body)
    except ValueError as error:  # such as a number of too many digits
        text = f"the body of the request cannot be decoded: {' '.join(str(error).split())}"
        raise ApiError(400, "BadRequest", text) from error
    except RecursionError as error:
        raise ApiError(400, "BadRequest", "the body of the request is nested too deep") from error
