"""Definitions, judged by kapilite and by Kubernetes' libraries: one verdict, the same fields.

The order of problems is not compared: in Kubernetes it is another each time.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings

from server_support.made_definitions import definitions, whole_definitions
from server_support.made_schemas import mistyped_schemas, odd_schemas
from server_support.writes import DEFINITIONS, Judged, Object, written

MANY = settings(max_examples=1000)
FEWER = settings(max_examples=500)  # they are several times as long


def theirs(checker: Any, crd: Object, old: Object | None = None) -> Judged:
    """What the libraries say, in our terms."""
    question = {"definition": crd} | ({} if old is None else {"old": old})
    answer = checker.ask("define", **question)
    if "unreadable" in answer:
        return Judged(is_readable=False)
    errors = frozenset((error["type"], error["field"]) for error in answer["errors"])
    return Judged(errors=errors, unknown=tuple(sorted(answer["unknown"])))


def ours(crd: Object, old: Object | None = None) -> Judged:
    found = written(DEFINITIONS, crd, old)
    return found._replace(stored=None, unknown=tuple(sorted(found.unknown)))


@MANY
@given(crd=definitions(odd_schemas))
def test_schemas(checker: Any, crd: Object) -> None:
    assert ours(crd) == theirs(checker, crd)


@MANY
@given(crd=definitions(mistyped_schemas))
def test_keywords_of_other_types(checker: Any, crd: Object) -> None:
    assert ours(crd) == theirs(checker, crd)


@FEWER
@given(crd=whole_definitions())
def test_names_versions_columns_and_subresources(checker: Any, crd: Object) -> None:
    assert ours(crd) == theirs(checker, crd)


@FEWER
@given(crd=whole_definitions(), old=whole_definitions())
def test_changes(checker: Any, crd: Object, old: Object) -> None:
    """Of a definition that is not established: then its scope and its kind can be changed."""
    before = written(DEFINITIONS, old).stored
    if before is None:
        return
    crd["metadata"] |= {"name": old["metadata"]["name"], "generation": 1}
    before["status"]["conditions"] = []
    assert ours(crd, before) == theirs(checker, crd, old)
