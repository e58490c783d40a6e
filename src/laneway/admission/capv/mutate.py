"""What is made right of a machine's spec: one spelling of its devices, and CAPV's defaults.

Who applies the same file again, in the proposal's spelling, finds the released form stored that was
made of it: then his list says nothing new, and is taken away again. Both forms with different
devices stay as they are, for the rules to refuse. A second pass finds nothing to do.

Ids in hexadecimal are texts, which the API server refuses by its schema before any rule sees them,
without a word about what would be right. A warning of a mutation reaches the user all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from laneway.admission.capv.objects import Where
from laneway.admission.json_patch import PatchOperation, put, remove
from laneway.admission.judging import Change, Mutate
from laneway.admission.review import Question
from laneway.admission.world import World
from laneway.api import DecodeError
from laneway.core.raw import Json, JsonObject, at
from laneway.core.vsphere.spec import parsing
from laneway.core.vsphere.spec.immutability import DEFAULTS

_ALIASES = ("pcidevices", "vgpudevices")


def mutation(where: Where) -> Mutate:
    """The mutation of one kind."""

    def mutate(question: Question, _world: World) -> Change:
        new, old = _read(question.object), _read(question.old_object)
        return Change(tuple(operations(where, new, old)), tuple(hints(where, new)))

    return mutate


def operations(where: Where, raw: Json, old: Json) -> Iterator[PatchOperation]:
    """What to change of an object, `old` being what it was; None where it is new."""
    spec = where.spec_in(raw)
    if not isinstance(spec, Mapping) or _is_going(raw):
        return
    items: Json = parsing.released(spec)
    if items is None:
        items = _said_again(spec, where.spec_in(old))
    if items is not None:
        if items != spec.get("pciDevices"):
            yield put(raw, (*where.path, "pciDevices"), items)
        yield from (remove((*where.path, name)) for name in _ALIASES if name in spec)
    for key, value in DEFAULTS[where.kind].items():
        if not spec.get(key):
            yield put(raw, (*where.path, key), value)


def hints(where: Where, raw: Json) -> Iterator[str]:
    """What to write instead of ids in hexadecimal."""
    for problem in parsing.read_spec(where.spec_in(raw))[1]:
        if parsing.hexadecimal(problem.value) is not None:
            yield f"{where.base}.{problem.path}: {problem.message}"


def _said_again(spec: JsonObject, old: Json) -> Json:
    """The released items, where the others only repeat them."""
    if not isinstance(old, Mapping):
        return None
    items = spec.get("pciDevices")
    repeated = parsing.released({key: spec.get(key) for key in _ALIASES})
    return items if repeated and items == repeated == old.get("pciDevices") else None


def _is_going(raw: Json) -> bool:
    return bool(at(raw, ("metadata", "deletionTimestamp")))


def _read(raw: msgspec.Raw | None) -> Json:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"the object: {error}") from None
