"""Inventory files: a fleet as text, to plan on where there is no cluster.

A file is read strictly: an unknown field, a wrong type, a name that stands for two things or for
none is an error that names its place (`contradictions`), for a plan on half of a fleet would look
like one on all of it. Holders and profiles that the file does not explain can come from a real
export, so they are told among what could not be read (`doubts`). It is written deterministically,
so that two exports can be compared line by line. YAML is for people and JSON for large fleets; what
is read is told by how the text begins. Serial numbers and UUIDs have no field and therefore cannot
be in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from kubebasics import yaml_text
from laneway.core.fleet.contradictions import contradictions
from laneway.core.fleet.doubts import doubts
from laneway.core.fleet.model import Fleet
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile

KIND = "FleetInventory"
VERSION = 1
MOST_BYTES = 64 << 20
_VALUES = 8_000_000


class InventoryError(ValueError):
    """The text is no inventory file; the words name the place, and what is wrong with it."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["FleetInventory"]
    version: Literal[1]
    fleet: Fleet


def write(fleet: Fleet, *, as_json: bool = False) -> str:
    """The file of a fleet."""
    document = {"kind": KIND, "version": VERSION, "fleet": fleet}
    if as_json:
        encoded = msgspec.json.encode(document, order="deterministic")
        return f"{msgspec.json.format(encoded, indent=1).decode()}\n"
    plain = msgspec.to_builtins(document, order="deterministic")
    return yaml_text.write(plain)


def read(content: bytes) -> Fleet:
    """The fleet of a file. Raises InventoryError."""
    found = _decoded(content, _File, "an inventory file").fleet
    problem = next(contradictions(found), "")
    if problem:
        raise InventoryError(problem)
    told = [one for one in doubts(found) if one not in found.unreadable]
    return msgspec.structs.replace(found, unreadable=(*found.unreadable, *told))


def _decoded(content: bytes, kind: type[_File], what: str) -> _File:
    value = plain_value(content, what)
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InventoryError(placed(error)) from None
    stray = next(_stray_fields(value), "")
    if stray:
        raise InventoryError(stray)
    return found


def plain_value(content: bytes, what: str) -> Any:
    """The value of a text in YAML or JSON. Raises InventoryError."""
    if len(content) > MOST_BYTES:
        raise InventoryError(f"larger than {MOST_BYTES >> 20} MiB, so it is not read")
    try:
        if content.lstrip()[:1] == b"{":
            try:
                return msgspec.json.decode(content)
            except msgspec.DecodeError:
                pass  # YAML may begin so as well, and its error says the line.
        value = yaml_text.read(content, values=_VALUES)
    except (yaml_text.YamlError, UnicodeDecodeError, RecursionError) as error:
        raise InventoryError(f"this is not {what}: {error}") from None
    if not isinstance(value, dict):
        raise InventoryError(f"this is not {what}: it has no fields")
    return value


def placed(error: msgspec.ValidationError) -> str:
    """What does not fit, and first where: `fleet.gpus[0].name: expected str, got int`."""
    words, _, where = str(error).partition(" - at `")
    place = where.rstrip("`").removeprefix("$").removeprefix(".")
    plain = (words[:1].lower() + words[1:]).replace("`", "")
    return f"{place}: {plain}" if place else plain


def _stray_fields(value: Any) -> Iterator[str]:
    """Unknown fields of the structs that other parts of Laneway read leniently."""
    kinds = {"instances": GpuInstance, "instance_profiles": GpuInstanceProfile}
    for number, gpu in enumerate(value["fleet"].get("gpus", ())):
        for field, kind in kinds.items():
            known = set(kind.__struct_fields__)
            for index, one in enumerate(gpu.get(field, ())):
                for name in sorted(one.keys() - known, key=str):
                    yield f"fleet.gpus[{number}].{field}[{index}]: no field {str(name)[:60]!r}"
