"""The roles every cluster has, and the roles that gather others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.authn import ANONYMOUS, User
from kapilite.authorization import Authorizer, bootstrap, from_request
from kapilite.authorization.aggregation import Aggregation, gathered
from kapilite.authorization.kinds import KINDS
from kapilite.authorization.validation import problems
from kapilite.storage.events import Key, as_object
from kapilite.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
ROLES = f"clusterroles.{GROUP}"
BINDINGS = f"clusterrolebindings.{GROUP}"
BOB = User("bob", ("system:authenticated",))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(str(tmp_path / "db"))
    yield store
    store.close()


def get(store: Store, resource: str, name: str) -> dict[str, Any]:
    stored = store.get(Key(resource, "", name))
    assert stored
    return as_object(stored.body)


def put(store: Store, name: str, resource: str = ROLES, **body: Any) -> None:
    key = Key(resource, "", name)
    old = store.get(key)
    before: dict[str, Any] = as_object(old.body) if old else {"metadata": {"name": name}}
    meta = {**before["metadata"], **body.pop("metadata", {})}
    obj = {"apiVersion": "v1", "kind": "x", **before, **body, "metadata": meta}
    store.commit("MODIFIED" if old else "ADDED", key, obj, old)


def remove(store: Store, name: str) -> None:
    key = Key(ROLES, "", name)
    old = store.get(key)
    assert old
    store.commit("DELETED", key, as_object(old.body), old)


def bind(store: Store, role: str) -> None:
    subjects = [{"kind": "User", "name": "bob"}]
    put(store, role, BINDINGS, roleRef={"kind": "ClusterRole", "name": role}, subjects=subjects)


def can(authorizer: Authorizer, method: str, path: str, user: User = BOB) -> bool:
    return authorizer.decide(from_request(method, path, {}, user)).allowed


def test_every_object_is_a_valid_one() -> None:
    kinds = {kind.kind: kind for kind in KINDS}
    for obj in bootstrap.OBJECTS:
        assert not list(problems(kinds[obj["kind"]], obj, None))


def test_what_everybody_and_what_strangers_may_do(store: Store) -> None:
    bootstrap.ensure(store)
    authorizer = Authorizer(store)
    for path in ("/healthz", "/livez", "/readyz", "/version", "/version/"):
        assert can(authorizer, "GET", path, ANONYMOUS)
        assert can(authorizer, "GET", path)
        assert not can(authorizer, "POST", path, ANONYMOUS)
    for path in ("/livez/ping", "/healthz/store"):  # as on a real server
        assert not can(authorizer, "GET", path)
        assert can(authorizer, "GET", path, User("prober", ("system:monitoring",)))
    for path in ("/api", "/apis/apps", "/openapi/v2", "/openapi/v3/api/v1"):
        assert not can(authorizer, "GET", path, ANONYMOUS)
        assert can(authorizer, "GET", path)
    for path in ("/", "/metrics", "/api/v1/pods", "/apis/apps/v1/deployments"):
        assert not can(authorizer, "GET", path)
    for review in (
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    ):
        assert can(authorizer, "POST", review)
        assert not can(authorizer, "POST", review, ANONYMOUS)
    assert not can(authorizer, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    assert not can(authorizer, "POST", "/apis/authentication.k8s.io/v1/tokenreviews")


@pytest.mark.parametrize(
    ("role", "reads_secrets", "writes_pods", "writes_roles"),
    [
        ("view", False, False, False),
        ("edit", True, True, False),
        ("admin", True, True, True),
        ("cluster-admin", True, True, True),
    ],
)
def test_the_roles_for_people(
    store: Store, role: str, reads_secrets: bool, writes_pods: bool, writes_roles: bool
) -> None:
    bootstrap.ensure(store)
    authorizer = Authorizer(store)
    Aggregation(store)
    bind(store, role)
    pods, roles = "/api/v1/namespaces/a/pods", f"/apis/{GROUP}/v1/namespaces/a/roles"
    assert can(authorizer, "GET", pods)
    assert can(authorizer, "GET", "/api/v1/namespaces/a/secrets") is reads_secrets
    assert can(authorizer, "POST", pods) is writes_pods
    assert can(authorizer, "POST", roles) is writes_roles
    assert can(authorizer, "POST", "/api/v1/nodes") is (role == "cluster-admin")


def test_a_second_start_writes_nothing(store: Store) -> None:
    bootstrap.ensure(store)
    Aggregation(store)
    rv = store.rv
    bootstrap.ensure(store)
    Aggregation(store)
    assert store.rv == rv


def test_what_was_taken_away_comes_back_and_what_was_added_stays(store: Store) -> None:
    bootstrap.ensure(store)
    extra = {"verbs": ["get"], "nonResourceURLs": ["/extra"]}
    put(store, "system:discovery", rules=[extra], metadata={"labels": {"a": "b"}})
    put(store, "system:discovery", BINDINGS, subjects=[{"kind": "User", "name": "bob"}])
    put(store, "view", aggregationRule={"clusterRoleSelectors": []})
    bootstrap.ensure(store)
    role = get(store, ROLES, "system:discovery")
    urls = [url for rule in role["rules"] for url in rule["nonResourceURLs"]]
    assert {"/extra", "/api", "/version/"} <= set(urls)
    assert role["metadata"]["labels"] == {"a": "b", "kubernetes.io/bootstrapping": "rbac-defaults"}
    names = {s["name"] for s in get(store, BINDINGS, "system:discovery")["subjects"]}
    assert names == {"bob", "system:authenticated"}
    assert get(store, ROLES, "view")["aggregationRule"]["clusterRoleSelectors"]


def test_a_binding_to_another_role_is_made_again(store: Store) -> None:
    bootstrap.ensure(store)
    before = get(store, BINDINGS, "cluster-admin")
    put(store, "cluster-admin", BINDINGS, roleRef={**before["roleRef"], "name": "view"})
    bootstrap.ensure(store)
    after = get(store, BINDINGS, "cluster-admin")
    assert after["roleRef"] == before["roleRef"]
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


def test_what_says_so_is_left_alone(store: Store) -> None:
    bootstrap.ensure(store)
    annotations = {"annotations": {bootstrap.AUTOUPDATE: "false"}}
    put(store, "system:discovery", rules=[], metadata=annotations)
    bootstrap.ensure(store)
    assert get(store, ROLES, "system:discovery")["rules"] == []


def _role(label: str = "", gathers: str = "", *verbs: str) -> dict[str, Any]:
    role: dict[str, Any] = {"metadata": {"labels": {label: "1"} if label else {}}}
    if gathers:
        selector = {"matchLabels": {gathers: "1"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    role["rules"] = [{"verbs": [verb], "apiGroups": [""], "resources": ["x"]} for verb in verbs]
    return role


def _verbs(store: Store, name: str) -> list[str]:
    return [verb for rule in get(store, ROLES, name)["rules"] or () for verb in rule["verbs"]]


def test_rules_follow_the_roles_that_are_gathered(store: Store) -> None:
    Aggregation(store)
    put(store, "whole", **_role("outer", "part"))
    put(store, "outermost", **_role("", "outer"))
    assert _verbs(store, "whole") == []
    put(store, "b", **_role("part", "", "two", "one"))
    put(store, "a", **_role("part", "", "one"))
    assert _verbs(store, "whole") == ["one", "two"]
    assert _verbs(store, "outermost") == ["one", "two"]
    put(store, "b", **_role("", "", "two"))  # no longer labelled
    assert _verbs(store, "outermost") == ["one"]
    remove(store, "a")
    assert _verbs(store, "outermost") == []


def test_what_is_written_into_a_gathering_role_does_not_last(store: Store) -> None:
    authorizer = Authorizer(store)
    Aggregation(store)
    authorizer_after = Authorizer(store)  # it hears of the change before the repair
    put(store, "whole", **_role("", "part"))
    bind(store, "whole")
    put(store, "whole", rules=_role("", "", "get")["rules"])
    assert _verbs(store, "whole") == []
    for decider in (authorizer, authorizer_after, Authorizer(store)):
        assert not can(decider, "GET", "/api/v1/namespaces/a/x/y")


def test_a_start_finishes_what_a_crash_cut_off(store: Store) -> None:
    put(store, "whole", **_role("", "part"))
    put(store, "a", **_role("part", "", "one"))
    assert _verbs(store, "whole") == []
    Aggregation(store)
    assert _verbs(store, "whole") == ["one"]


def test_a_revoked_right_is_gone_although_another_role_grows_too_large(store: Store) -> None:
    Aggregation(store)
    authorizer = Authorizer(store)
    put(store, "reader", **_role("", "", "get"))
    bind(store, "reader")
    put(store, "all", **_role("", "part"))
    put(store, "small", **_role("part", "", "get"))
    for name in ("one", "two"):
        large = {"verbs": [name], "resources": ["x" * 2_300_000], "apiGroups": [""]}
        put(store, name, metadata={"labels": {"part": "1"}}, rules=[large])
    assert _verbs(store, "all") == ["one", "get"], "gathered as long as it could be stored"
    assert can(authorizer, "GET", "/api/v1/namespaces/a/x/y")
    put(store, "reader", rules=[])
    assert not can(authorizer, "GET", "/api/v1/namespaces/a/x/y")
    put(store, "small", rules=[])
    assert _verbs(store, "all") == ["one"]
    put(store, "one", rules=[])
    assert _verbs(store, "all") == ["two"]


def test_roles_that_gather_each_other_come_to_rest(store: Store) -> None:
    Aggregation(store)
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        put(store, name, **_role(name, other, f"stale-{name}"))
    put(store, "part", **_role("a", "", "one"))
    assert [_verbs(store, name) for name in "abc"] == [["one"]] * 3


_labels = st.sampled_from(["", "a", "b", "c"])
_roles = st.dictionaries(
    st.sampled_from("klmnop"),
    st.builds(_role, _labels, _labels, st.sampled_from(["v", "w"])),
)


@given(_roles)
def test_gathering_depends_on_nothing_but_the_other_roles(roles: dict[str, Any]) -> None:
    gathering = [name for name, role in roles.items() if role.get("aggregationRule")]
    first = {name: gathered(name, roles) for name in gathering}
    settled = roles | {name: {**roles[name], "rules": rules} for name, rules in first.items()}
    assert {name: gathered(name, settled) for name in gathering} == first
