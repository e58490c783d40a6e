"""How much a ResourceSlice may hold, and what its names look like: kapilite's rules and the API's.

Kubernetes' libraries have no validation of `resource.k8s.io`. They have its constants, and the
functions of the formats that the tags of its types name. Both are asked here what they refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kapilite import builtin

Object = dict[str, Any]
KIND = next(kind for kind in builtin.KINDS if kind.kind == "ResourceSlice")
ONE = {"value": "1"}


def refused(**changed: Any) -> bool:
    """Whether kapilite refuses a slice with these fields."""
    pool = {"name": "node1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "x.example.com", "pool": pool, "nodeName": "node1", **changed}
    obj = {"metadata": {"name": "x"}, "spec": spec}
    assert builtin.complete(KIND, obj) == []
    return bool(builtin.problems(KIND, obj, None))


def of_device(**more: Any) -> Object:
    return {"devices": [{"name": "a", **more}]}


def some(count: int) -> list[str]:
    return [f"a{number}" for number in range(count)]


def tainted(keys: list[str]) -> list[Object]:
    return [{"key": key, "effect": "NoSchedule"} for key in keys]


def conditions(wanted: int, failing: int) -> Object:
    names = some(wanted + failing)
    return of_device(
        bindingConditions=names[:wanted], bindingFailureConditions=names[wanted:], bindsToNode=True
    )


def consuming(sets: int, counters: int) -> Object:
    consumed = [
        {"counterSet": name, "counters": dict.fromkeys(some(counters), ONE)} for name in some(sets)
    ]
    return of_device(consumesCounters=consumed)


def sharing(sets: int, counters: int) -> Object:
    counted = dict.fromkeys(some(counters), ONE)
    return {"sharedCounters": [{"name": name, "counters": counted} for name in some(sets)]}


def pool(name: str) -> Object:
    return {"pool": {"name": name, "generation": 1, "resourceSliceCount": 1}}


def attribute(key: str) -> Object:
    return of_device(attributes={key: {"int": 1}})


LIMITED: dict[str, Callable[[int], Object]] = {
    "devices": lambda n: {"devices": [{"name": name} for name in some(n)]},
    "devicesWithMore": lambda n: {
        "devices": [{"name": name, "taints": tainted(["k"])} for name in some(n)]
    },
    "counterSets": lambda n: sharing(n, 1),
    "counters": lambda n: sharing(1, n),
    "consumptions": lambda n: consuming(n, 1),
    "consumedCounters": lambda n: consuming(1, n),
    "attributes": lambda n: of_device(
        attributes={key: {"int": 1} for key in some(n - 1)}, capacity={"c": ONE}
    ),
    "taints": lambda n: of_device(taints=tainted(some(n))),
    "conditions": lambda n: conditions(n, 1),
    "failureConditions": lambda n: conditions(1, n),
    "driverLength": lambda n: {"driver": "d" * n},
    "poolLength": lambda n: pool("/".join(["p" * 100, "p" * 100, "p" * (n - 202)])),
    "attributeLength": lambda n: of_device(attributes={"a": {"string": "t" * n}}),
    "keyDomainLength": lambda n: attribute(f"{'d' * n}/a"),
    "keyNameLength": lambda n: attribute("k" * n),
}


def test_all_limits_of_the_api_are_compared(checker: Any) -> None:
    assert checker.ask("slice").keys() == LIMITED.keys()


@pytest.mark.parametrize("limit", LIMITED)
def test_a_slice_may_hold_so_much_and_no_more(checker: Any, limit: str) -> None:
    most = checker.ask("slice")[limit]
    assert not refused(**LIMITED[limit](most))
    assert refused(**LIMITED[limit](most + 1))


FORMATS: list[tuple[str, Callable[[str], Object]]] = [
    ("k8s-short-name", lambda text: {"sharedCounters": [{"name": text, "counters": {"a": ONE}}]}),
    ("k8s-short-name", lambda text: {"sharedCounters": [{"name": "a", "counters": {text: ONE}}]}),
    ("k8s-short-name", lambda text: {"devices": [{"name": text}]}),
    (
        "k8s-short-name",
        lambda text: of_device(consumesCounters=[{"counterSet": text, "counters": {"a": ONE}}]),
    ),
    ("k8s-resource-pool-name", pool),
    ("k8s-long-name", lambda text: {"nodeName": text}),
    ("k8s-label-key", lambda text: of_device(taints=tainted([text]))),
    (
        "k8s-label-value",
        lambda text: of_device(taints=[{"key": "k", "value": text, "effect": "None"}]),
    ),
]

parts = st.sampled_from(["a", "A", "0", "-", ".", "_", "a.b", "a-b", "é", " ", "a" * 32, "b" * 62])
texts = st.lists(parts | st.just("/"), max_size=5).map("".join) | st.just("a." * 130 + "a")


@settings(max_examples=300)
@pytest.mark.parametrize(("form", "made"), FORMATS)
@given(text=texts)
def test_a_name_has_the_format_that_the_types_say(
    checker: Any, form: str, made: Callable[[str], Object], text: str
) -> None:
    answer = checker.ask("format", format=form, text=text)
    assert refused(**made(text)) == bool(answer["errors"]), (text, answer)


@settings(max_examples=300)
@given(text=texts)
def test_an_attribute_has_a_name_of_its_domain(checker: Any, text: str) -> None:
    """Of more than one slash the libraries say nothing, but Kubernetes does."""
    key = f"x.io/{text.replace('/', '')}"
    answer = checker.ask("format", format="k8s-resource-fully-qualified-name", text=key)
    assert refused(**attribute(key)) == bool(answer["errors"]), (key, answer)
    assert refused(**attribute(f"{key}/x"))


@settings(max_examples=300)
@pytest.mark.parametrize(
    "made", [lambda text: {"driver": text}, lambda text: attribute(f"{text}/x")]
)
@given(text=texts.filter(lambda text: "/" not in text))
def test_a_driver_and_the_domain_of_an_attribute_may_be_in_any_case(
    checker: Any, made: Callable[[str], Object], text: str
) -> None:
    answer = checker.ask("format", format="k8s-long-name-caseless", text=text)
    too_long = len(text.encode()) > checker.ask("slice")["driverLength"]
    assert refused(**made(text)) == (too_long or bool(answer["errors"])), (text, answer)


@settings(max_examples=300)
@given(
    text=st.builds(
        str.__add__, st.sampled_from(["", "x.io/", "requests.", "kubernetes.io/"]), texts
    )
)
def test_the_resource_of_a_class_is_an_extended_one(checker: Any, text: str) -> None:
    answer = checker.ask("format", format="k8s-extended-resource-name", text=text)
    obj = {"metadata": {"name": "x"}, "spec": {"extendedResourceName": text}}
    kind = next(kind for kind in builtin.KINDS if kind.kind == "DeviceClass")
    assert builtin.complete(kind, obj) == []
    assert bool(builtin.problems(kind, obj, None)) == bool(answer["errors"]), (text, answer)
