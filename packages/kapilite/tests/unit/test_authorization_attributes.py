"""What a request wants, read off its method, path and query as Kubernetes reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite import address
from kapilite.authn import User
from kapilite.authorization import Attributes, from_request
from kapilite.authorization.attributes import is_about, is_plain

USER = User("u")


def read(method: str, path: str, **query: str) -> dict[str, Any]:
    found = from_request(method, path, query, USER)
    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name", "path")
    return {name: value for name in names if (value := getattr(found, name))}


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/v1/pods", "list pods"),
        ("HEAD", "/api/v1/pods", "list pods"),
        ("GET", "/api/v1/pods/", "list pods"),
        ("GET", "//api/v1/pods", "list pods"),
        ("GET", "/api/v1/namespaces/a/pods", "list pods a"),
        ("GET", "/api/v1/namespaces//pods", "list pods"),
        ("GET", "/api/v1/namespaces/a/pods/x", "get pods a x"),
        ("HEAD", "/api/v1/namespaces/a/pods/x", "get pods a x"),
        ("PUT", "/api/v1/namespaces/a/pods/x/status", "update pods/status a x"),
        ("PATCH", "/api/v1/namespaces/a/pods/x/log/more", "patch pods/log a x"),
        ("POST", "/api/v1/namespaces/a/pods", "create pods a"),
        ("POST", "/api/v1/namespaces/a/pods/x/binding", "create pods/binding a x"),
        ("DELETE", "/api/v1/namespaces/a/pods/x", "delete pods a x"),
        ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection pods a"),
        ("OPTIONS", "/api/v1/namespaces/a/pods", " pods a"),
        ("GET", "/api/v1/namespaces", "list namespaces"),
        ("GET", "/api/v1/namespaces/a", "get namespaces a a"),
        ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces/finalize a a"),
        ("GET", "/api/v1/namespaces/a/status/x", "get namespaces/status a a"),
        ("GET", "/api/v1/namespaces/a%2Fpods%2Fx", "get pods a x"),
        ("GET", "/api/v1/%70ods", "list pods"),
        ("GET", "/api/v1/%2570ods", "list %70ods"),
        ("GET", "/api/v1/Pods", "list Pods"),
        ("GET", "/api/v1/watch/pods", "watch pods"),
        ("GET", "/api/v1/watch/namespaces/a/pods/x", "watch pods a x"),
        ("GET", "/api/v1/proxy/namespaces/a/pods/x/y/z", "proxy pods a x"),
        ("GET", "/api/v1/nodes/../pods", "get nodes/pods  .."),
    ],
)
def test_resources(method: str, path: str, expected: str) -> None:
    verb, resource, namespace, name = (*expected.split(" "), "", "")[:4]
    plural, _, subresource = resource.partition("/")
    found = from_request(method, path, {}, USER)
    assert found.path is None
    assert (found.verb, found.resource, found.subresource) == (verb, plural, subresource)
    assert (found.namespace, found.name, found.group, found.version) == (namespace, name, "", "v1")


def test_groups() -> None:
    assert read("GET", "/apis/apps/v1/namespaces/a/deployments/x/scale") == {
        "verb": "get",
        "group": "apps",
        "version": "v1",
        "resource": "deployments",
        "subresource": "scale",
        "namespace": "a",
        "name": "x",
    }


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/healthz",
        "/api",
        "/api/v1",
        "/apis/apps",
        "/apis/apps/v1",
        "/API/v1/pods",
        "/apis//v1",
    ],
)
def test_other_paths_are_taken_as_they_are(path: str) -> None:
    assert read("GET", path) == {"verb": "get", "path": path}
    assert read("HEAD", path) == {"verb": "head", "path": path}


@pytest.mark.parametrize(
    ("value", "verb"),
    [
        ("1", "watch"),
        ("true", "watch"),
        ("True", "watch"),
        ("yes", "watch"),
        ("", "watch"),
        ("0", "list"),
        ("false", "list"),
        ("False", "list"),
    ],
)
def test_a_watch_is_no_list(value: str, verb: str) -> None:
    assert read("GET", "/api/v1/pods", watch=value)["verb"] == verb
    assert read("GET", "/api/v1/namespaces/a/pods/x", watch=value)["verb"] == "get"


@pytest.mark.parametrize(
    ("selector", "name"),
    [
        ("metadata.name=x", "x"),
        ("metadata.name==x,spec.nodeName=n", "x"),
        ("spec.nodeName=n,metadata.name=x", "x"),
        ("metadata.name!=x", None),
        ("metadata.name=a/b", None),
        ("metadata.name=..", None),
        (r"metadata.name=a\,b", None),
        ("metadata.namespace=x", None),
    ],
)
def test_a_list_of_one_name_is_about_that_name(selector: str, name: str | None) -> None:
    assert read("GET", "/api/v1/pods", fieldSelector=selector).get("name") == name
    assert "name" not in read("DELETE", "/api/v1/pods", fieldSelector=selector)


@pytest.mark.parametrize(
    "path",
    [
        "//api/v1/pods",
        "/api//v1/pods",
        "/api/v1/pods//",
        "/api/v1/./pods",
        "/api/v1/nodes/../pods",
        "/api/v1/nodes/%2e%2e/pods",
        "/api/v1/nodes/%2E./pods",
        "/api/v1/namespaces/a%2Fpods",
        "/api/v1/namespaces/a%2fpods",
        "/api/v1/%2570ods",
        "/api/v1/pods%00",
        "/api/v1/pods%0d%0a",
        "/api/v1/pods%5cx",
        "/api/v1/pods%ff",
        "api/v1/pods",
    ],
)
def test_paths_that_can_be_read_in_two_ways(path: str) -> None:
    assert not is_plain(path)


@pytest.mark.parametrize("path", ["/", "/version/", "/api/v1/pods", "/apis/a/v1/x/system%3Anode"])
def test_plain_paths(path: str) -> None:
    assert is_plain(path)


_WORDS = "api apis v1 apps namespaces pods status finalize watch proxy x . .. %2F %2e %70ods % Ä"
_segment = st.sampled_from(["", *_WORDS.split()]) | st.text(max_size=4)
_paths = st.lists(_segment, max_size=8).map(lambda parts: "/" + "/".join(parts)) | st.text()
_methods = st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO", ""])


@given(_methods, _paths, st.dictionaries(st.sampled_from(["watch", "fieldSelector"]), st.text()))
def test_every_request_has_attributes(method: str, path: str, query: dict[str, str]) -> None:
    found = from_request(method, path, query, USER)
    assert isinstance(found, Attributes)
    assert (found.path is None) != (found.version == "" and found.resource == "")
    is_plain(path)


@given(_methods, _paths)
def test_an_address_served_is_an_address_authorised(method: str, path: str) -> None:
    """Whatever our routes make of a path, it is what was asked about, or the gate stops it."""
    parts = path.split("/")
    group = ""
    if parts[:2] == ["", "api"]:
        rest = parts[3:]
    elif parts[:2] == ["", "apis"] and len(parts) > 3:
        group, rest = parts[2], parts[4:]
    else:
        return
    where = address.parse(group, "v1", "/".join(rest)) if rest else None
    wanted = from_request(method, path, {}, USER)
    if where is None or not is_plain(path) or not is_about(wanted, where) or "%" in path:
        return
    assert (wanted.group, wanted.resource) == (where.group, where.plural)
    assert wanted.subresource == where.subresource
    assert wanted.name == where.name
    assert where.namespace in (wanted.namespace, "")
