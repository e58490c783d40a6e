"""Which moment a list or watch is of: what goes together, and what it means."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite.encodings.negotiation import YAML, Form
from kapilite.errors import ApiError
from kapilite.reads import moments, watch
from kapilite.reads.moments import Span

LATEST = 100


def message(query: dict[str, str], *, watching: bool = False) -> tuple[int, str]:
    def ask() -> object:
        return watch.options(query, Form(), LATEST) if watching else moments.span(query, LATEST)

    with pytest.raises(ApiError) as caught:
        ask()
    return caught.value.code, caught.value.message


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, Span(0, "", None)),
        ({"resourceVersion": "0"}, Span(0, "", None)),
        ({"resourceVersion": "0", "limit": "5"}, Span(0, "", None)),
        ({"resourceVersion": "7"}, Span(0, "", None)),
        ({"resourceVersion": "7", "limit": "5"}, Span(5, "", 7)),
        ({"resourceVersion": "7", "resourceVersionMatch": "Exact"}, Span(0, "", 7)),
        (
            {"resourceVersion": "7", "resourceVersionMatch": "NotOlderThan", "limit": "5"},
            Span(5, "", None),
        ),
        ({"continue": "x", "limit": "5"}, Span(5, "x", None)),
        ({"continue": "x", "resourceVersion": "0"}, Span(0, "x", None)),
        ({"limit": "-1"}, Span(0, "", None)),
    ],
)
def test_the_moment_of_a_list(query: dict[str, str], wanted: Span) -> None:
    assert moments.span(query, LATEST) == wanted


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            (
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
                "resourceVersion is provided"
            ),
        ),
        (
            {"resourceVersionMatch": "Foo", "resourceVersion": "3"},
            (
                'resourceVersionMatch: Unsupported value: "Foo": supported values: "Exact", '
                '"NotOlderThan", ""'
            ),
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            (
                'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for '
                'resourceVersion "0"'
            ),
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "3", "continue": "x"},
            (
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when "
                "continue is provided"
            ),
        ),
        (
            {"sendInitialEvents": "true"},
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
        ),
    ],
)
def test_what_does_not_go_together_in_a_list(query: dict[str, str], problem: str) -> None:
    assert message(query) == (422, f'ListOptions.meta.k8s.io "" is invalid: {problem}')


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (
            {"resourceVersionMatch": "NotOlderThan"},
            (
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch "
                "unless sendInitialEvents is provided"
            ),
        ),
        (
            {"sendInitialEvents": "true"},
            (
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
                "resourceVersionMatch to NotOlderThan"
            ),
        ),
    ],
)
def test_what_does_not_go_together_in_a_watch(query: dict[str, str], problem: str) -> None:
    code, text = message(query, watching=True)
    assert (code, text) == (422, f'ListOptions.meta.k8s.io "" is invalid: {problem}')


def test_a_version_to_come_is_waited_for_by_the_client() -> None:
    wanted = (504, "Timeout: Too large resource version: 101, current: 100")
    assert message({"resourceVersion": "101"}) == wanted
    streaming = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    assert message(streaming | {"resourceVersion": "101"}, watching=True) == wanted


@pytest.mark.parametrize("text", ["abc", "-1", "1.5", "\u0661", "9" * 30])
def test_versions_are_numbers(text: str) -> None:
    code, found = message({"resourceVersion": text})
    assert code == 400
    assert found.startswith("invalid resource version")


def test_a_page_cannot_be_of_another_moment() -> None:
    text = "specifying resource version is not allowed when using continue"
    assert message({"continue": "x", "resourceVersion": "5"}) == (400, text)


@pytest.mark.parametrize("text", ["abc", "-", "1e3", "9" * 19])
def test_limits_are_numbers(text: str) -> None:
    code, found = message({"limit": text})
    assert code == 400
    assert found.startswith("strconv.ParseInt")


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, {"since": ""}),
        ({"resourceVersion": "0"}, {"since": ""}),
        ({"resourceVersion": "7", "timeoutSeconds": "3"}, {"since": "7", "timeout": 3.0}),
        ({"allowWatchBookmarks": "true"}, {"bookmarks": True}),
        ({"allowWatchBookmarks": "false"}, {"bookmarks": False}),
        ({"sendInitialEvents": "true"}, {"initial_events": True}),
        ({"sendInitialEvents": "false"}, {"initial_events": False, "only_new": True}),
    ],
)
def test_how_a_watch_is_requested(query: dict[str, str], wanted: dict[str, Any]) -> None:
    if "sendInitialEvents" in query:
        query = query | {"resourceVersionMatch": "NotOlderThan"}
    found = watch.options(query, Form(), LATEST)
    assert {name: getattr(found, name) for name in wanted} == wanted


def test_a_watch_is_never_yaml() -> None:
    with pytest.raises(ApiError) as caught:
        watch.options({}, Form(media_type=YAML), LATEST)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")
