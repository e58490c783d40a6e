"""The macros: loops over lists and maps, and the optional value that is looked into.

Every turn takes from the budget. `all` and `exists` forgive an error where another turn decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kapilite.cel.functions import find
from kapilite.cel.values import CelError, Optional

if TYPE_CHECKING:
    from collections.abc import Iterator

Scope = dict[str, Any]
Step = Callable[[Scope], Any]

BUDGET = ""
"""Under this name the scope holds the budget: no variable can be called so."""

_Turns = Callable[[Scope], "Iterator[tuple[Any, Scope]]"]


def step(macro: str, over: Step, names: tuple[str, ...], body: list[Step]) -> Step:
    """What a macro does with a range, the names that its body uses, and the parts of its body."""
    if macro in ("optMap", "optFlatMap"):
        return _optional_map(over, names[0], body[0], is_flat=macro == "optFlatMap")
    if macro == "sortBy":
        return _sorted(over, _transform(_turns(over, names), names[0], body))
    return _LOOPS[macro](_turns(over, names), names[-1], body)


def _turns(over: Step, names: tuple[str, ...]) -> _Turns:
    def turns(scope: Scope) -> Iterator[tuple[Any, Scope]]:
        """The key and the scope of each turn."""
        items = over(scope)
        inner = dict(scope)
        budget = scope[BUDGET]
        if isinstance(items, dict):
            pairs = iter(items.items())
        elif isinstance(items, list):
            pairs = iter(enumerate(items))
        else:
            raise CelError("no such overload")
        is_map = isinstance(items, dict)
        for key, value in pairs:
            budget.spend(1)
            if len(names) == 2:
                inner[names[0]] = key
            inner[names[-1]] = key if is_map and len(names) == 1 else value
            yield key, inner

    return turns


def _quantified(turns: _Turns, body: list[Step], *, decisive: bool) -> Step:
    def decide(scope: Scope) -> bool:
        error: CelError | None = None
        for _, inner in turns(scope):
            try:
                value = body[0](inner)
            except CelError as caught:
                error = caught
                continue
            if value is decisive:
                return bool(decisive)
            if not isinstance(value, bool):
                error = CelError("no such overload")
        if error is not None:
            raise error
        return not decisive

    return decide


def _exists_one(turns: _Turns, _: str, body: list[Step]) -> Step:
    return lambda scope: sum(_truth(body[0], inner) for _, inner in turns(scope)) == 1


def _truth(test: Step, scope: Scope) -> bool:
    value = test(scope)
    if not isinstance(value, bool):
        raise CelError("no such overload")
    return value


def _filter(turns: _Turns, name: str, body: list[Step]) -> Step:
    return lambda scope: [inner[name] for _, inner in turns(scope) if _truth(body[0], inner)]


def _chosen(turns: _Turns, tests: list[Step]) -> _Turns:
    """The turns that pass all tests."""

    def chosen(scope: Scope) -> Iterator[tuple[Any, Scope]]:
        for key, inner in turns(scope):
            if all(_truth(test, inner) for test in tests):
                yield key, inner

    return chosen


def _transform(turns: _Turns, _: str, body: list[Step]) -> Step:
    *tests, result = body
    chosen = _chosen(turns, tests)
    return lambda scope: [result(inner) for _, inner in chosen(scope)]


def _transform_map(turns: _Turns, _: str, body: list[Step]) -> Step:
    *tests, result = body
    chosen = _chosen(turns, tests)
    return lambda scope: {key: result(inner) for key, inner in chosen(scope)}


def _transform_entries(turns: _Turns, _: str, body: list[Step]) -> Step:
    *tests, result = body
    chosen = _chosen(turns, tests)

    def gather(scope: Scope) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _, inner in chosen(scope):
            entries = result(inner)
            if not isinstance(entries, dict):
                raise CelError("no such overload")
            for key, value in entries.items():
                if key in found:
                    raise CelError(f"insert failed: key {key} already exists")
                found[key] = value
        return found

    return gather


_LOOPS: dict[str, Callable[[_Turns, str, list[Step]], Step]] = {
    "all": lambda turns, _, body: _quantified(turns, body, decisive=False),
    "exists": lambda turns, _, body: _quantified(turns, body, decisive=True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _transform,
    "transformList": _transform,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_entries,
}


def _sorted(over: Step, keys: Step) -> Step:
    def arrange(scope: Scope) -> Any:
        values = [over(scope), keys(scope)]
        overload = find("@sortByAssociatedKeys", values, is_member=True)
        if overload is None:
            raise CelError("no such overload")
        scope[BUDGET].spend(len(values[0]))
        return overload.run(*values)

    return arrange


def _optional_map(over: Step, name: str, body: Step, *, is_flat: bool) -> Step:
    def apply(scope: Scope) -> Any:
        value = over(scope)
        if not isinstance(value, Optional):
            raise CelError("no such overload")
        if not value.present:
            return value
        result = body({**scope, name: value.value})
        return result if is_flat else Optional(result, present=True)

    return apply
