"""Printer columns: what a path finds in an object, and the cell that is made of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kapilite.definitions import crds
from kapilite.printers import jsonpath, tables
from server_support import made_definitions

FAILED = "failed"

# ---- paths ----

keys = st.sampled_from(["a", "a", "a", "b", "b", "c", r"a\.b", "a-b", "é", "_1", "7"])
numbers = st.sampled_from(["0", "1", "-1", "-2", "3", "", "-", "99999999999999999999"])
literals = st.sampled_from(
    [
        '"x"',
        "'x'",
        '""',
        r'"\"x"',
        r"'\x78'",
        '"é"',
        "1",
        "-1",
        "+2",
        "1.5",
        "1.",
        "true",
        "false",
        "null",
        "1e3",
        "@.b",
        "@",
        "$.a",
    ]
)
operators = st.sampled_from(["==", "!=", "<", ">", "<=", ">=", " == ", "=", "=~"])
slices = st.lists(numbers, min_size=1, max_size=3).map(":".join)
fields = keys.map(".{}".format)
quoted = st.sampled_from(["'a'", "'b'", r"'a\.b'", "'a.b'", "''", '"a"', "a"])
within = st.lists(
    st.one_of(fields, quoted.map("[{}]".format), slices.map("[{}]".format)), max_size=2
)
subjects = within.map("".join).map("@{}".format)
filters = st.one_of(
    subjects.map("[?({})]".format),
    st.builds("[?({}{}{})]".format, subjects, operators, literals),
)
unions = st.lists(st.one_of(slices, quoted, st.just("*")), min_size=2, max_size=3).map(
    lambda parts: f"[{', '.join(parts)}]"
)
ordered = st.one_of(
    fields,
    fields,
    quoted.map("[{}]".format),
    slices.map("[{}]".format),
    st.sampled_from(["[*]", "[*][*]", "[*].a"]),
    filters,
    unions,
)
noise = st.text(".[]()?@$*:,'\"\\ab01- =<>!{}é\n", min_size=1, max_size=6)
anywhere = st.one_of(
    st.just(".*"), keys.map("..{}".format), st.just("..[*]"), filters.map("..{}".format)
)


def paths(*segments: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(*segments), min_size=1, max_size=4).map("".join)


# ---- objects ----

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**53 + 1, -(2**63), 1.5, -1e6, 1234567.5, 1e21, 3e-7, 100.0]),
    st.sampled_from(
        ["x", "", "a<b>&\u2028", "é", "2020-01-01T00:00:00Z", "0000-02-29T1:00:00,5+24:60"]
    ),
    st.sampled_from(
        [
            "0001-01-01T00:00:00Z",
            "null",
            "2020-01-01",
            "2021-02-29T00:00:00Z",
            "2100-01-01T00:00:00-01:00",
        ]
    ),
)
names = st.sampled_from(["a", "a", "a", "b", "b", "c", "a.b", "a-b", "é"])


def values(size: int) -> st.SearchStrategy[Any]:
    """Whose maps have `size` values at most."""
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(st.lists(inner, max_size=2), min_size=2, max_size=3),
            st.dictionaries(names, inner, max_size=size),
        ),
        max_leaves=10,
    )


def objects(size: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, values(size), min_size=1, max_size=size)


# ---- what each of them finds ----


def found(path: str, obj: Any) -> Any:
    try:
        return jsonpath.Path(path).find(obj)
    except jsonpath.UnreadableError:
        return FAILED


def agree(checker: Any, path: str, obj: Any) -> None:
    answer = checker.ask("jsonpath", path=path, object=obj)
    theirs = FAILED if "refused" in answer else answer.get("values", [])
    assert found(path, obj) == theirs, (path, obj, answer)


@settings(max_examples=1500)
@given(path=paths(ordered, ordered, ordered, noise), obj=objects(3))
@example(path=".a[*][*]", obj={"a": [[1], [], [2]]})
def test_what_is_at_a_path(checker: Any, path: str, obj: Any) -> None:
    agree(checker, path, obj)


@settings(max_examples=1500)
@given(path=paths(anywhere, ordered), obj=objects(1))
def test_what_is_anywhere(checker: Any, path: str, obj: Any) -> None:
    """In maps with one value: Kubernetes takes the values of a map in any order."""
    agree(checker, path, obj)


columns = st.lists(
    st.tuples(
        st.sampled_from(["string", "integer", "number", "boolean", "date"]),
        st.one_of(paths(ordered), fields, noise, st.just("")),
    ),
    min_size=1,
    max_size=5,
)


def definition(shown: list[tuple[str, str]]) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    columns = [
        {"name": f"C{number}", "type": type_, "jsonPath": path}
        for number, (type_, path) in enumerate(shown)
    ]
    return made_definitions.definition(schema, additionalPrinterColumns=columns)


def last(path: str) -> str:
    return path[path.rindex("additional") :]


@settings(max_examples=600)
@given(shown=columns, obj=objects(3))
def test_cells(checker: Any, shown: list[tuple[str, str]], obj: dict[str, Any]) -> None:
    crd = definition(shown)
    refused = checker.ask("define", definition=crd, name="things")["errors"]
    crds.default_names(crd)
    problems = crds.problems(crd, None, ())
    assert [last(p.field) for p in problems] == [last(error["field"]) for error in refused], shown
    if refused:
        return
    crd["status"] = crds.established(crd, None)
    obj = {"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "x"}, **obj}
    theirs = checker.ask("object", definition="things", version="v1", object=obj)["cells"]
    (kind,) = crds.kinds(crd)
    (row,) = tables.render(kind, [obj], now=datetime.now(UTC))["rows"]
    assert msgspec.json.encode(row["cells"]) == msgspec.json.encode(theirs), (shown, obj)


def test_a_path_with_range_is_refused(checker: Any) -> None:
    """Kubernetes accepts it, and then shows of each object what the one before it left."""
    crd = definition([("string", ".a}{range .b[*]}{.c}{end")])
    assert checker.ask("define", definition=crd)["errors"] == []
    crds.default_names(crd)
    assert [p.message for p in crds.problems(crd, None, ())] == [
        'Invalid value: ".a}{range .b[*]}{.c}{end": range is not supported'
    ]
