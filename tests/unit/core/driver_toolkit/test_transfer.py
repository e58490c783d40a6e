"""What a server's answer means when a part of the package is here already."""

from __future__ import annotations

import pytest

from laneway.core.driver_toolkit.transfer import (
    Answer,
    conditions,
    judge,
    redirected,
    validator_of,
)


def test_only_what_a_server_can_confirm_is_continued() -> None:
    assert conditions(100, '"v1"')["Range"] == "bytes=100-"
    assert conditions(100, '"v1"')["If-Range"] == '"v1"'
    assert "Range" not in conditions(100, "")
    assert "Range" not in conditions(0, '"v1"')


def test_a_weak_tag_confirms_nothing() -> None:
    assert validator_of({"ETag": '"v1"', "Last-Modified": "x"}) == '"v1"'
    assert validator_of({"ETag": 'W/"v1"', "Last-Modified": "x"}) == "x"
    assert validator_of({"ETag": 'W/"v1"'}) == ""


@pytest.mark.parametrize(
    ("status", "headers", "answer"),
    [
        (200, {"Content-Length": "300"}, Answer("body", 0, 300)),
        (200, {}, Answer("body", 0, None)),
        (206, {"Content-Range": "bytes 100-299/300"}, Answer("body", 100, 300)),
        (206, {"Content-Range": "bytes 50-299/*"}, Answer("body", 50, None)),
        (416, {"Content-Range": "bytes */100"}, Answer("whole", 100, 100)),
    ],
)
def test_the_body_belongs_where_the_server_says(
    status: int, headers: dict[str, str], answer: Answer
) -> None:
    assert judge(status, headers, 100) == answer


@pytest.mark.parametrize(
    ("status", "headers", "kind"),
    [
        (206, {"Content-Range": "bytes 101-299/300"}, "restart"),
        (206, {}, "restart"),
        (416, {"Content-Range": "bytes */90"}, "restart"),
        (404, {}, "absent"),
        (403, {}, "absent"),
        (204, {}, "absent"),
        (407, {}, "again"),
        (429, {}, "again"),
        (503, {}, "again"),
        (302, {"Location": "/b"}, "redirect"),
    ],
)
def test_every_other_answer_has_one_consequence(
    status: int, headers: dict[str, str], kind: str
) -> None:
    assert judge(status, headers, 100).kind == kind


@pytest.mark.parametrize(
    ("url", "target", "new", "refused"),
    [
        ("https://a/b", "/c?d=e", "https://a/c?d=e", ""),
        ("https://a/b", "https://mirror/c", "https://mirror/c", ""),
        ("http://a/b", "https://a/b", "https://a/b", ""),
        ("https://a/b", "http://a/b", "http://a/b", "which is not encrypted"),
        ("http://a/b", "file:///etc/shadow", "file:///etc/shadow", "neither https nor http"),
        ("http://a/b", "", "http://a/b", "neither"),
        ("http://a/b", "https://u:p@c/d", "https://u:p@c/d", "a user or a password"),
        ("http://a/b", "http://[", "http://[", "no URL"),
    ],
)
def test_a_redirect_leads_nowhere_less_safe(url: str, target: str, new: str, refused: str) -> None:
    found = redirected(url, target)

    assert found[0] == new
    assert refused in found[1]
    assert bool(refused) == bool(found[1])
