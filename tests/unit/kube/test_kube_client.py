"""What the client sends, what it makes of answers, and what it repeats."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from laneway.kube.client import PatchType
from laneway.kube.cluster import Cluster, ClusterConfig, Pem, User
from laneway.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConfigError,
    ConflictError,
    CutOffError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UndecodableError,
    UnreachableError,
)


async def test_an_object_is_read_by_name(script, things) -> None:
    script.replies.append(script.body(200, script.thing("a", 5, size=3, namespace="team")))

    async with script.client() as client:
        thing = await client.get(things, "a", "team")

    assert (thing.metadata.name, thing.size) == ("a", 3)
    assert script.seen[0].method == "GET"
    assert script.seen[0].path == "/apis/example.org/v1/namespaces/team/things/a"
    assert script.seen[0].headers["authorization"] == "Bearer abc"
    assert script.seen[0].headers["accept"] == "application/json"


async def test_a_list_comes_in_pages_of_undecoded_items(plain, things) -> None:
    plain.replies += [
        plain.items(9, plain.thing("a", 1), more="a token/+="),
        plain.items(9, {"metadata": "broken"}),
    ]

    async with plain.client() as client:
        pages = [page async for page in client.list(things, limit=1, label_selector="a=b")]

    assert [len(page.items) for page in pages] == [1, 1]
    assert pages[-1].resource_version == "9"
    assert plain.seen[1].query == {"limit": "1", "labelSelector": "a=b", "continue": "a token/+="}


async def test_a_list_without_items_is_empty(plain, things) -> None:
    plain.replies.append(plain.body(200, {"metadata": {"resourceVersion": "9"}, "items": None}))

    async with plain.client() as client:
        assert [page.items async for page in client.list(things)] == [[]]


async def test_create_sends_the_object_and_its_options(plain, things) -> None:
    plain.replies.append(plain.body(201, plain.thing("a", 1)))

    async with plain.client() as client:
        await client.create(things, {"size": 1}, "team", field_manager="me", dry_run=True)

    (seen,) = plain.seen
    assert (seen.method, seen.path) == ("POST", "/apis/example.org/v1/namespaces/team/things")
    assert seen.query == {"fieldManager": "me", "dryRun": "All"}
    assert seen.headers["content-type"] == "application/json"
    assert seen.json == {"size": 1}


@pytest.mark.parametrize(
    ("patch_type", "content_type"),
    [
        (PatchType.MERGE, "application/merge-patch+json"),
        (PatchType.JSON, "application/json-patch+json"),
        (PatchType.APPLY, "application/apply-patch+yaml"),
    ],
)
async def test_patches_of_each_kind(plain, things, patch_type, content_type: str) -> None:
    plain.replies.append(plain.body(200, plain.thing("a", 1)))
    body: Any = [{"op": "test"}] if patch_type is PatchType.JSON else {"size": 1}

    async with plain.client() as client:
        await client.patch(
            things,
            "a",
            body,
            patch_type=patch_type,
            subresource="status",
            field_manager="me",
            force=True,
        )

    (seen,) = plain.seen
    assert (seen.method, seen.path) == ("PATCH", "/apis/example.org/v1/things/a/status")
    assert seen.query == {"fieldManager": "me", "force": "true"}
    assert seen.headers["content-type"] == content_type
    assert seen.json == body


async def test_delete_says_which_object_it_means(plain, things) -> None:
    plain.replies.append(plain.body(200, {"kind": "Status"}))

    async with plain.client() as client:
        await client.delete(things, "a", uid="u", resource_version="5", propagation="Foreground")

    (seen,) = plain.seen
    assert seen.method == "DELETE"
    assert seen.json["preconditions"] == {"uid": "u", "resourceVersion": "5"}
    assert seen.json["propagationPolicy"] == "Foreground"
    assert "gracePeriodSeconds" not in seen.json


async def test_a_pod_of_which_nothing_runs_is_deleted_for_good(plain, things) -> None:
    plain.replies.append(plain.body(200, {"kind": "Status"}))

    async with plain.client() as client:
        await client.delete(things, "a", grace_seconds=0)

    assert plain.seen[0].json["gracePeriodSeconds"] == 0


async def test_raw_reads_any_path(plain) -> None:
    plain.replies.append(plain.body(200, b"ok"))

    async with plain.client() as client:
        assert await client.raw("/readyz", {"verbose": ""}) == b"ok"

    assert plain.seen[0].path == "/readyz"


async def test_a_server_behind_a_path_prefix_is_reached_there(plain, things) -> None:
    cluster = dataclasses.replace(
        plain.config.cluster, server=plain.config.cluster.server + "/k8s/clusters/c-1/"
    )
    plain.config = ClusterConfig(cluster)
    plain.replies.append(plain.body(200, plain.thing("a", 1)))

    async with plain.client() as client:
        await client.get(things, "a")

    assert plain.seen[0].path == "/k8s/clusters/c-1/apis/example.org/v1/things/a"


@pytest.mark.parametrize("name", ["..", "."])
async def test_a_name_cannot_lead_elsewhere(plain, things, name: str) -> None:
    async with plain.client() as client:
        with pytest.raises(KubeError, match="request path"):
            await client.get(things, name)

    assert plain.seen == []


async def test_a_name_with_odd_characters_stays_one_segment(plain, things) -> None:
    plain.replies.append(plain.body(200, plain.thing("a", 1)))

    async with plain.client() as client:
        await client.get(things, "a/b?c#d")

    assert plain.seen[0].path == "/apis/example.org/v1/things/a%2Fb%3Fc%23d"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (409, "Conflict", ConflictError),
        (409, "AlreadyExists", AlreadyExistsError),
        (410, "Gone", GoneError),
        (410, "Expired", GoneError),
        (422, "Invalid", InvalidError),
        (500, "InternalError", ApiError),
    ],
)
async def test_refusals_are_typed(plain, things, code: int, reason: str, kind: type) -> None:
    cause = {"reason": "FieldValueInvalid", "message": "too big", "field": "size"}
    plain.replies.append(plain.body(code, plain.failure(code, reason, details={"causes": [cause]})))

    async with plain.client() as client:
        with pytest.raises(ApiError) as caught:
            await client.create(things, {})

    error = caught.value
    assert type(error) is kind
    assert (error.code, error.reason, error.message) == (code, reason, "as scripted")
    assert [it.field for it in error.causes] == ["size"]


async def test_a_refusal_for_several_reasons_is_one_line(plain, things) -> None:
    failure = plain.failure(403, "Forbidden", message="It is taken.\n\tIt is broken.\n")
    plain.replies.append(plain.body(403, failure))

    async with plain.client() as client:
        with pytest.raises(ForbiddenError) as caught:
            await client.create(things, {})

    assert str(caught.value) == "It is taken. It is broken. (403 Forbidden)"


@pytest.mark.parametrize("content", [b"<h1>Bad\n gateway</h1>", b"\xff\xfe", b"", b"[]"])
async def test_a_refusal_that_is_no_status_still_has_its_code(plain, things, content) -> None:
    plain.replies.append(plain.body(502, content))

    async with plain.client() as client:
        with pytest.raises(ApiError) as caught:
            await client.get(things, "a")

    assert caught.value.code == 502
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"not json", b'{"size": "x"}', b"[", b"\xff"])
async def test_an_answer_that_is_something_else_is_said_to_be(plain, things, content) -> None:
    plain.replies += [plain.body(200, content), plain.body(200, content)]

    async with plain.client() as client:
        with pytest.raises(UndecodableError, match=r"things\.example\.org"):
            await client.get(things, "a")
        with pytest.raises(UndecodableError, match=r"things\.example\.org"):
            await anext(client.list(things))


@pytest.mark.parametrize("code", [429, 503])
async def test_a_request_that_is_put_off_is_repeated(plain, things, code: int) -> None:
    later = plain.body(code, plain.failure(code), Retry_After="7")
    plain.replies += [later, later, plain.body(201, plain.thing("a", 1))]

    async with plain.client() as client:
        await client.create(things, {"size": 1})

    assert plain.pauses == [7.0, 7.0]
    assert [one.json for one in plain.seen] == [{"size": 1}] * 3


async def test_a_request_that_is_put_off_again_and_again_is_given_up(plain, things) -> None:
    plain.replies += [plain.body(429, plain.failure(429), Retry_After="1")] * 10

    async with plain.client() as client:
        with pytest.raises(ApiError):
            await client.create(things, {})

    assert len(plain.seen) == 4


@pytest.mark.parametrize(("seconds", "believed"), [("31", 31.0), ("86400", 300.0)])
async def test_a_request_that_is_put_off_for_long_is_for_the_caller_to_repeat(
    plain, things, seconds: str, believed: float
) -> None:
    plain.replies.append(plain.body(429, plain.failure(429), Retry_After=seconds))

    async with plain.client() as client:
        with pytest.raises(ApiError) as caught:
            await client.create(things, {})

    assert caught.value.retry_after == believed
    assert plain.pauses == []


async def test_a_caller_with_a_deadline_hears_at_once_that_it_is_put_off(plain, things) -> None:
    plain.replies.append(plain.body(429, plain.failure(429), Retry_After="2"))

    async with plain.client() as client:
        with pytest.raises(ApiError):
            await client.unwaiting().create(things, {})

    assert plain.pauses == []


@pytest.mark.parametrize(("code", "headers"), [(503, {}), (500, {"Retry_After": "1"})])
async def test_other_failures_are_not_repeated(plain, things, code: int, headers) -> None:
    plain.replies.append(plain.body(code, plain.failure(code), **headers))

    async with plain.client() as client:
        with pytest.raises(ApiError):
            await client.create(things, {})

    assert len(plain.seen) == 1


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses: bound, so that no other process takes it, and not listening."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


async def test_a_refused_connection_is_tried_again_for_reading_only(
    plain, things, closed_port: int
) -> None:
    plain.config = ClusterConfig(Cluster(f"http://127.0.0.1:{closed_port}"))

    async with plain.client() as client:
        with pytest.raises(UnreachableError, match=f"127.0.0.1:{closed_port}: Connection refused"):
            await client.create(things, {})
        assert plain.pauses == []
        with pytest.raises(UnreachableError):
            await client.get(things, "a")

    assert len(plain.pauses) == 3

    async with plain.client(connect_delays=()) as client:
        with pytest.raises(UnreachableError):
            await client.get(things, "a")
    assert len(plain.pauses) == 3


async def test_a_server_whose_name_is_unknown(plain, things) -> None:
    plain.config = ClusterConfig(Cluster("https://no-such-host.invalid:6443"))

    async with plain.client() as client:
        with pytest.raises(UnreachableError) as caught:
            await client.create(things, {})

    assert str(caught.value).startswith("no answer from no-such-host.invalid:6443: ")
    assert "SSLContext" not in str(caught.value)


async def test_a_write_that_gets_no_answer_is_not_repeated(script, things) -> None:
    script.replies.append(script.reset)

    async with script.client() as client:
        with pytest.raises(UnreachableError):
            await client.create(things, {})

    assert len(script.seen) == 1


async def test_no_request_waits_for_ever(script, things) -> None:
    script.replies.append(script.silence)

    script.watches.append(script.silence)

    async with script.client(request_seconds=0.2) as client:
        with pytest.raises(UnreachableError, match="time limit"):
            await client.create(things, {})
        with pytest.raises(UnreachableError, match="time limit"):
            await anext(client.watch(things, resource_version="1"))


async def test_an_answer_that_breaks_off_differs_from_none(script, things) -> None:
    script.watches.append(script.stream(end="cut"))

    async with script.client() as client:
        with pytest.raises(CutOffError, match=r"broke off: (the connection was closed|.*reset)"):
            async for _ in client.watch(things, resource_version="1"):
                pass


async def test_a_redirect_is_not_followed(plain, things) -> None:
    plain.replies.append(plain.body(302, b"", Location="http://127.0.0.1:1/"))

    async with plain.client() as client:
        with pytest.raises(ApiError, match="302"):
            await client.get(things, "a")


async def test_warnings_are_logged_once(plain, things, caplog) -> None:
    warned = plain.body(200, plain.thing("a", 1), Warning='299 - "v1 is \\"old\\""')
    plain.replies += [warned, warned, plain.body(200, plain.thing("a", 1), Warning="199 nonsense")]

    with caplog.at_level(logging.WARNING):
        async with plain.client() as client:
            for _ in range(3):
                await client.get(things, "a")

    assert [one.getMessage().split(" warns: ")[1] for one in caplog.records] == ['v1 is "old"']


async def test_a_server_without_a_trusted_certificate_gets_no_request(secure, things) -> None:
    secure.config = ClusterConfig(Cluster(secure.config.cluster.server))

    async with secure.client() as client:
        with pytest.raises(UnreachableError, match="not trusted"):
            await client.get(things, "a")

    assert secure.seen == []
    assert secure.pauses == []


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({"tls_server_name": "server.test"}, True),
        ({"tls_server_name": "other.test"}, False),
        ({"ca": None, "insecure": True}, True),
    ],
)
async def test_how_the_server_is_checked(secure, things, change, accepted: bool) -> None:
    secure.config = ClusterConfig(dataclasses.replace(secure.config.cluster, **change))
    secure.replies.append(secure.body(200, secure.thing("a", 1)))

    async with secure.client() as client:
        if accepted:
            await client.get(things, "a")
        else:
            with pytest.raises(UnreachableError, match="not trusted"):
                await client.get(things, "a")


async def test_a_client_certificate_is_shown(mutual, things, authority) -> None:
    certificate, key = authority.client
    user = User(certificate=Pem(data=certificate), key=Pem(data=key))
    mutual.replies.append(mutual.body(200, mutual.thing("a", 1)))

    async with mutual.client(user) as client:
        await client.get(things, "a")
    async with mutual.client() as client:
        with pytest.raises(UnreachableError):
            await client.get(things, "a")


async def test_a_renewed_client_certificate_is_taken_up(
    mutual, things, authority, tmp_path
) -> None:
    pair = tmp_path / "tls.crt", tmp_path / "tls.key"
    for path, content in zip(pair, authority.client, strict=True):
        path.write_bytes(content)
    user = User(certificate=Pem(path=str(pair[0])), key=Pem(path=str(pair[1])))
    mutual.replies += [
        mutual.body(200, mutual.thing("a", 1)),
        mutual.body(401, mutual.failure(401)),
    ]

    async with mutual.client(user) as client:
        await client.get(things, "a")
        pair[1].write_bytes(b"not a key")
        with pytest.raises(ConfigError, match="pair"):
            await client.get(things, "a")


async def test_an_authority_that_was_replaced_is_trusted_at_once(
    secure, things, authority, stranger: bytes, tmp_path
) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(stranger)
    secure.config = ClusterConfig(
        dataclasses.replace(secure.config.cluster, ca=Pem(path=str(file)))
    )
    secure.replies += [secure.body(200, secure.thing("a", 1))] * 5

    async with secure.client() as client:
        with pytest.raises(UnreachableError, match="not trusted"):
            await client.get(things, "a")
        file.write_bytes(authority.certificate)
        # All of those that meet the new certificate at the same time.
        await asyncio.gather(*(client.create(things, {"size": n}) for n in range(5)))

    assert sorted(one.json["size"] for one in secure.seen) == [0, 1, 2, 3, 4]


def test_a_certificate_authority_that_is_none(plain) -> None:
    plain.config = ClusterConfig(Cluster("https://127.0.0.1:1", Pem(data=b"nothing")))

    with pytest.raises(ConfigError, match="holds no PEM certificates"):
        plain.client()


async def test_requests_go_through_the_proxy(plain, things) -> None:
    cluster = Cluster("http://api.test:6443", proxy_url=plain.config.cluster.server)
    plain.config = ClusterConfig(cluster)
    plain.replies.append(plain.body(200, plain.thing("a", 1)))

    async with plain.client() as client:
        await client.get(things, "a")

    assert plain.seen[0].headers["host"] == "api.test:6443"
