"""Decisions by the roles and bindings of a store, and how they follow its changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.authn import User
from kapilite.authorization import Attributes, Authorizer
from kapilite.authorization.rules import Rule, read
from kapilite.storage.events import Key, as_object
from kapilite.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
BOB = User("bob", ("dev", "system:authenticated"))


class Cluster:
    """A store with roles and bindings, and the authorizer that follows it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.authorizer = Authorizer(store)

    def put(self, kind: str, name: str, namespace: str = "", **body: Any) -> None:
        key = Key(f"{kind.lower()}s.{GROUP}", namespace, name)
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        obj = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": meta, **body}
        old = self.store.get(key)
        self.store.commit("MODIFIED" if old else "ADDED", key, obj, old)

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        key = Key(f"{kind.lower()}s.{GROUP}", namespace, name)
        old = self.store.get(key)
        assert old
        self.store.commit("DELETED", key, as_object(old.body), old)

    def bind(
        self, role: str, *subjects: dict[str, Any], namespace: str = "", name: str = "b"
    ) -> None:
        kind, _, role_name = role.rpartition("/")
        ref = {"apiGroup": GROUP, "kind": kind or "ClusterRole", "name": role_name}
        what = "RoleBinding" if namespace else "ClusterRoleBinding"
        self.put(what, name, namespace, roleRef=ref, subjects=list(subjects))

    def can(
        self, verb: str, resource: str, namespace: str = "", *, user: User = BOB, **more: str
    ) -> bool:
        plural, _, subresource = resource.partition("/")
        wanted = Attributes(
            user=user,
            verb=verb,
            resource=plural,
            subresource=subresource,
            namespace=namespace,
            **more,
        )
        return self.authorizer.decide(wanted).allowed


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    store = Store(str(tmp_path / "db"))
    yield Cluster(store)
    store.close()


def rule(
    verbs: str, resources: str, groups: tuple[str, ...] = ("",), **more: Any
) -> dict[str, Any]:
    return {
        "verbs": verbs.split(),
        "apiGroups": list(groups),
        "resources": resources.split(),
        **more,
    }


def user(name: str = "bob", kind: str = "User", **more: str) -> dict[str, str]:
    return {"kind": kind, "name": name, **more}


def test_nothing_is_allowed_without_a_rule(cluster: Cluster) -> None:
    assert not cluster.can("get", "pods", "a")
    assert not cluster.can("", "")


def test_masters_may_do_everything(cluster: Cluster) -> None:
    assert cluster.can("delete", "nodes", user=User("x", ("system:masters",)))


def test_a_cluster_role_bound_for_the_cluster_or_for_a_namespace(cluster: Cluster) -> None:
    cluster.put("ClusterRole", "r", rules=[rule("get list", "pods")])
    cluster.bind("r", user(), namespace="a")
    assert cluster.can("get", "pods", "a")
    assert not cluster.can("get", "pods", "b")
    assert not cluster.can("list", "pods")
    assert not cluster.can("get", "pods/log", "a")
    assert not cluster.can("get", "pods", "a", group="apps")
    cluster.bind("r", user())
    assert cluster.can("get", "pods", "b")
    assert cluster.can("list", "pods")
    assert not cluster.can("get", "pods", "a", user=User("Bob"))


def test_a_role_reaches_no_further_than_its_namespace(cluster: Cluster) -> None:
    cluster.put("Role", "r", "a", rules=[rule("*", "*", ("*",))])
    cluster.bind("Role/r", user(), namespace="a", name="b1")
    cluster.bind("Role/r", user(), namespace="b", name="b2")  # there is no such Role in b
    cluster.bind("Role/r", user(), name="b3")  # and none in the cluster
    assert cluster.can("get", "pods", "a")
    assert not cluster.can("get", "pods", "b")
    assert not cluster.can("get", "nodes")


@pytest.mark.parametrize(
    ("resources", "wanted", "allowed"),
    [
        ("pods", "pods", True),
        ("pods", "pods/log", False),
        ("pods/log", "pods/log", True),
        ("pods/log", "pods", False),
        ("*", "pods/log", True),
        ("*/scale", "pods/scale", True),
        ("*/scale", "pods", False),
        ("pods/*", "pods/log", False),
        ("pod", "pods", False),
        ("Pods", "pods", False),
        ("", "pods", False),
    ],
)
def test_resources_of_a_rule(cluster: Cluster, resources: str, wanted: str, allowed: bool) -> None:
    cluster.put("ClusterRole", "r", rules=[rule("get", "") | {"resources": [resources]}])
    cluster.bind("r", user())
    assert cluster.can("get", wanted) is allowed


def test_names_of_a_rule(cluster: Cluster) -> None:
    cluster.put("ClusterRole", "r", rules=[rule("get list", "pods", resourceNames=["x"])])
    cluster.bind("r", user())
    assert cluster.can("get", "pods", "a", name="x")
    assert not cluster.can("get", "pods", "a", name="y")
    assert not cluster.can("list", "pods", "a")


@pytest.mark.parametrize(
    ("url", "path", "allowed"),
    [
        ("/healthz", "/healthz", True),
        ("/healthz", "/healthz/", False),
        ("/healthz/*", "/healthz/x", True),
        ("/healthz/*", "/healthz", False),
        ("/api*", "/apis", True),
        ("*", "/anything", True),
        ("/a/*/b", "/a/x/b", False),
    ],
)
def test_paths_of_a_rule(cluster: Cluster, url: str, path: str, allowed: bool) -> None:
    cluster.put("ClusterRole", "r", rules=[{"verbs": ["get"], "nonResourceURLs": [url]}])
    cluster.bind("r", user(), name="all")
    assert cluster.authorizer.decide(Attributes(user=BOB, verb="get", path=path)).allowed is allowed
    assert not cluster.authorizer.decide(Attributes(user=BOB, verb="put", path=path)).allowed


def test_a_rule_for_resources_is_none_for_paths_and_the_other_way_round(cluster: Cluster) -> None:
    cluster.put("ClusterRole", "r", rules=[rule("*", "*", ("*",))])
    cluster.put("ClusterRole", "p", rules=[{"verbs": ["*"], "nonResourceURLs": ["*"]}])
    cluster.bind("r", user())
    assert not cluster.authorizer.decide(Attributes(user=BOB, verb="get", path="/x")).allowed
    assert not cluster.authorizer.decide(Attributes(user=BOB, verb="get", path="")).allowed
    cluster.bind("p", user())
    assert not cluster.can("get", "pods")


def test_paths_are_not_granted_in_a_namespace(cluster: Cluster) -> None:
    cluster.put("ClusterRole", "p", rules=[{"verbs": ["*"], "nonResourceURLs": ["*"]}])
    cluster.bind("p", user(), namespace="a")
    wanted = Attributes(user=BOB, verb="get", path="/x", namespace="a")
    assert not cluster.authorizer.decide(wanted).allowed


def test_subjects(cluster: Cluster) -> None:
    cluster.put("ClusterRole", "r", rules=[rule("get", "pods")])
    robot = User("system:serviceaccount:a:robot")
    cluster.bind("r", user("dev", "Group"))
    assert cluster.can("get", "pods")
    assert not cluster.can("get", "pods", user=User("dev"))
    cluster.bind("r", user("robot", "ServiceAccount", namespace="a"))
    assert not cluster.can("get", "pods")
    assert cluster.can("get", "pods", user=robot)
    cluster.bind("r", user("robot", "ServiceAccount"))
    assert not cluster.can("get", "pods", user=robot)
    cluster.bind("r", user("robot", "ServiceAccount"), namespace="a")
    assert cluster.can("get", "pods", "a", user=robot)
    cluster.bind("r", user("bob", "Somebody"))
    assert not cluster.can("get", "pods")


def test_what_is_taken_away_is_gone_at_once(cluster: Cluster) -> None:
    cluster.put("ClusterRole", "r", rules=[rule("get", "pods")])
    cluster.bind("r", user(), user("dev", "Group"))
    assert cluster.can("get", "pods")
    cluster.put("ClusterRole", "r", rules=[rule("get", "secrets")])
    assert not cluster.can("get", "pods")
    assert cluster.can("get", "secrets")
    cluster.remove("ClusterRole", "r")
    assert not cluster.can("get", "secrets")
    cluster.put("ClusterRole", "r", rules=[rule("get", "secrets")])
    assert cluster.can("get", "secrets")
    cluster.remove("ClusterRoleBinding", "b")
    assert not cluster.can("get", "secrets")


def test_what_is_rolled_back_was_never_granted(cluster: Cluster) -> None:
    with cluster.store.transaction(dry_run=True):
        cluster.put("ClusterRole", "r", rules=[rule("get", "pods")])
        cluster.bind("r", user())
    assert not cluster.can("get", "pods")


def test_a_restart_changes_nothing(cluster: Cluster) -> None:
    cluster.put("ClusterRole", "r", rules=[rule("get", "pods")])
    cluster.bind("r", user(), namespace="a")
    cluster.authorizer = Authorizer(cluster.store)
    assert cluster.can("get", "pods", "a")
    assert not cluster.can("get", "pods", "b")


def test_reasons(cluster: Cluster) -> None:
    wanted = Attributes(user=BOB, verb="get", resource="pods", namespace="a")
    cluster.bind("nope", user())
    decision = cluster.authorizer.decide(wanted)
    assert decision.reason == f'RBAC: clusterrole.{GROUP} "nope" not found'
    cluster.put("Role", "r", "a", rules=[rule("get", "pods")])
    cluster.bind("Role/r", user(), namespace="a", name="mine")
    decision = cluster.authorizer.decide(wanted)
    assert decision.reason == 'RBAC: allowed by RoleBinding "mine/a" of Role "r" to User "bob"'


@pytest.mark.parametrize(
    "rules",
    [
        None,
        "*",
        [None],
        ["*"],
        [{"verbs": "*", "apiGroups": ["*"], "resources": ["*"]}],
        [{"verbs": ["*"], "apiGroups": ["*"], "resources": "*"}],
        [{"verbs": [["*"]], "apiGroups": ["*"], "resources": ["*"]}],
        [{"verbs": ["*"], "apiGroups": ["*"], "resources": {"*": 1}}],
        [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "resourceNames": "x"}],
    ],
)
def test_a_malformed_role_grants_nothing(cluster: Cluster, rules: Any) -> None:
    cluster.put("ClusterRole", "r", rules=rules)
    cluster.bind("r", user())
    assert not cluster.can("get", "pods")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"roleRef": None},
        {"roleRef": {"kind": "ClusterRole"}},
        {"roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": "other"}},
        {"roleRef": {"kind": "clusterrole", "name": "r"}},
        {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": "bob"},
        {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User"}]},
        {"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [None]},
    ],
)
def test_a_malformed_binding_grants_nothing(cluster: Cluster, body: dict[str, Any]) -> None:
    cluster.put("ClusterRole", "r", rules=[rule("get", "pods")])
    cluster.put("ClusterRoleBinding", "b", **body)
    assert not cluster.can("get", "pods", user=User(""))
    assert not cluster.can("get", "pods")


_words = st.lists(st.sampled_from(["*", "a", "b", "a/s", "*/s", "b/s"]), max_size=3).map(tuple)
_urls = st.lists(st.sampled_from(["*", "/a", "/a/*", "/b"]), max_size=2).map(tuple)
_rules = st.builds(
    Rule,
    verbs=_words,
    api_groups=_words,
    resources=_words,
    resource_names=_words,
    non_resource_urls=_urls,
)
_text = st.sampled_from(["", "a", "b", "s", "*"])
_wanted = st.builds(
    Attributes,
    user=st.just(BOB),
    verb=_text,
    group=_text,
    resource=_text,
    subresource=_text,
    name=_text,
    path=st.none() | st.sampled_from(["", "/a", "/a/b", "/b"]),
)


@given(_rules, _wanted)
def test_more_words_in_a_rule_never_allow_less(found: Rule, wanted: Attributes) -> None:
    """But for names, where none means all."""
    more = Rule(
        verbs=(*found.verbs, "a"),
        api_groups=(*found.api_groups, "b"),
        resources=(*found.resources, "a"),
        resource_names=found.resource_names,
        non_resource_urls=(*found.non_resource_urls, "/b"),
    )
    fewer_names = Rule(
        verbs=found.verbs,
        api_groups=found.api_groups,
        resources=found.resources,
        non_resource_urls=found.non_resource_urls,
    )
    assert more.allows(wanted) >= found.allows(wanted)
    assert fewer_names.allows(wanted) >= found.allows(wanted)


@given(_wanted)
def test_an_empty_rule_allows_nothing(wanted: Attributes) -> None:
    assert not Rule().allows(wanted)
    assert read([{}]) == (Rule(),)
