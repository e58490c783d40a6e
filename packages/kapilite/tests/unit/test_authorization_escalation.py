"""No user grants what they do not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.authn import User
from kapilite.authorization import Attributes, Authorizer, bootstrap
from kapilite.authorization.escalation import check, uncovered
from kapilite.authorization.kinds import KINDS
from kapilite.authorization.rules import Rule, write
from kapilite.errors import ApiError
from kapilite.storage.events import Key
from kapilite.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
KIND = {kind.kind: kind for kind in KINDS}
BOB = User("bob", ("dev", "system:authenticated"))
PODS = Rule(verbs=("get", "list"), api_groups=("",), resources=("pods",))


class Cluster:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.authorizer = Authorizer(store)
        create = Rule(verbs=("create",), api_groups=(GROUP,), resources=("*",))
        self.give(create)

    def give(self, *rules: Rule, namespace: str = "") -> None:
        """Bind these rules to bob, in a namespace or in the whole cluster."""
        name = f"of-bob-{self.store.rv}"
        subject = {"kind": "User", "name": "bob"}
        binding = "rolebindings" if namespace else "clusterrolebindings"
        ref = {"kind": "ClusterRole", "name": name}
        for resource, where, body in (
            ("clusterroles", "", {"rules": write(rules)}),
            (binding, namespace, {"roleRef": ref, "subjects": [subject]}),
        ):
            obj = {"apiVersion": "v1", "kind": "x", "metadata": {"name": name}, **body}
            self.store.commit("ADDED", Key(f"{resource}.{GROUP}", where, name), obj, None)

    def refusal(
        self,
        kind: str,
        body: dict[str, Any],
        namespace: str = "a",
        old: dict[str, Any] | None = None,
        user: User = BOB,
    ) -> tuple[int, str] | None:
        where = namespace if KIND[kind].namespaced else ""
        obj = {"metadata": {"name": "new", "namespace": where}, **body}
        name = "new" if old else ""
        try:
            check(self.authorizer, user, KIND[kind], obj, old, namespace=where, name=name)
        except ApiError as error:
            return error.code, error.message
        return None


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    store = Store(str(tmp_path / "db"))
    bootstrap.ensure(store)
    yield Cluster(store)
    store.close()


def test_a_role_of_what_one_has(cluster: Cluster) -> None:
    role = {"rules": write([PODS])}
    assert cluster.refusal("Role", role) == (
        403,
        (
            f'roles.{GROUP} "new" is forbidden: user "bob" (groups=["dev" "system:authenticated"]) '
            "is attempting to grant RBAC permissions not currently held:\n"
            '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}'
        ),
    )
    cluster.give(PODS, namespace="a")
    assert cluster.refusal("Role", role) is None
    assert cluster.refusal("Role", role, namespace="b")
    assert cluster.refusal("ClusterRole", role)
    assert cluster.refusal("ClusterRole", role, user=User("root", ("system:masters",))) is None


def _of_many(count: int, *more: str) -> Rule:
    names = (*(f"n{number}" for number in range(count)), *more)
    return Rule(verbs=names, api_groups=names, resources=names)


@pytest.mark.parametrize("holds", [0, 1, 400])
def test_a_role_of_too_many_permissions_is_refused(cluster: Cluster, holds: int) -> None:
    for number in range(holds):
        cluster.give(Rule(verbs=("get",), api_groups=("",), resources=(f"r{number}",)))
    code, message = cluster.refusal("Role", {"rules": write([_of_many(60)])}) or (0, "")
    assert code == 403
    assert message.endswith("grants too many permissions at once to be compared with those held")


def test_many_permissions_are_nothing_to_compare_where_they_are_held(cluster: Cluster) -> None:
    cluster.give(_of_many(60, "more"))
    assert cluster.refusal("Role", {"rules": write([_of_many(60)])}) is None


def test_the_text_of_a_refusal_stays_readable(cluster: Cluster) -> None:
    many = [Rule(verbs=("get",), api_groups=("",), resources=(f"r{n:03}",)) for n in range(300)]
    _, message = cluster.refusal("Role", {"rules": write(many)}) or (0, "")
    lines = message.splitlines()
    assert len(lines) == 52
    assert lines[1] == '{APIGroups:[""], Resources:["r000"], Verbs:["get"]}'
    assert lines[-1] == "and 250 more"
    long = [Rule(verbs=("get",), api_groups=("",), resources=(n * 9000,)) for n in "abcd"]
    _, message = cluster.refusal("Role", {"rules": write(long)}) or (0, "")
    assert message.endswith("and 2 more")


def test_the_verb_escalate(cluster: Cluster) -> None:
    escalate = Rule(verbs=("escalate",), api_groups=(GROUP,), resources=("roles",))
    cluster.give(escalate, namespace="a")
    assert cluster.refusal("Role", {"rules": write([PODS])}) is None
    assert cluster.refusal("Role", {"rules": write([PODS])}, namespace="b")
    assert cluster.refusal("ClusterRole", {"rules": write([PODS])})


def test_a_binding_to_a_role_of_what_one_has(cluster: Cluster) -> None:
    binding = {"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}}
    code, message = cluster.refusal("ClusterRoleBinding", binding) or (0, "")
    assert code == 403
    assert message.endswith(
        '\n{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}'
    )
    assert cluster.refusal("RoleBinding", binding)
    missing = {"roleRef": {"kind": "Role", "name": "none"}}
    assert cluster.refusal("RoleBinding", missing) == (404, f'roles.{GROUP} "none" not found')
    odd = {"roleRef": {"kind": "Rolle", "name": "cluster-admin"}}
    assert cluster.refusal("RoleBinding", odd)
    assert cluster.refusal("RoleBinding", {})


def test_the_verb_bind(cluster: Cluster) -> None:
    bind = Rule(
        verbs=("bind",),
        api_groups=(GROUP,),
        resources=("clusterroles",),
        resource_names=("cluster-admin",),
    )
    cluster.give(bind, namespace="a")
    ref = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"}
    assert cluster.refusal("RoleBinding", {"roleRef": ref}) is None
    assert cluster.refusal("RoleBinding", {"roleRef": ref}, namespace="b")
    assert cluster.refusal("ClusterRoleBinding", {"roleRef": ref})
    basic = {**ref, "name": "system:auth-delegator"}
    assert cluster.refusal("RoleBinding", {"roleRef": basic})


def test_gathering_is_for_those_who_may_do_everything(cluster: Cluster) -> None:
    gathering = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    text = "must have cluster-admin privileges to use the aggregationRule"
    for body, old in ((gathering, None), ({}, {"metadata": {}, **gathering})):
        code, message = cluster.refusal("ClusterRole", body, old=old) or (0, "")
        assert (code, message) == (403, f'clusterroles.{GROUP} "new" is forbidden: {text}')
    cluster.give(Rule(verbs=("get", "create"), api_groups=("*",), resources=("*",)))
    assert cluster.refusal("ClusterRole", gathering)
    cluster.give(Rule(verbs=("*",), api_groups=("*",), resources=("*",)))
    assert cluster.refusal("ClusterRole", gathering) is None


def test_bookkeeping_needs_no_permission_and_nothing_else_passes_for_it(cluster: Cluster) -> None:
    meta = {"name": "new", "namespace": "a"}
    old = {"metadata": {**meta, "finalizers": ["x"]}, "rules": write([PODS])}
    assert cluster.refusal("Role", {"rules": write([PODS])}, old=old) is None
    labels = {"metadata": {**meta, "labels": {"a": "b"}}, "rules": write([PODS])}
    assert cluster.refusal("Role", labels, old=old)


def test_a_granted_role_that_is_missing_is_named(cluster: Cluster) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "x",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "none"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    cluster.store.commit("ADDED", Key(f"clusterrolebindings.{GROUP}", "", "b"), binding, None)
    _, message = cluster.refusal("Role", {"rules": write([PODS])}) or (0, "")
    assert message.endswith(f'; resolution errors: [clusterroles.{GROUP} "none" not found]')


def _some(*values: str, least: int = 1) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=2).map(tuple)


_resource_rules = st.builds(
    Rule,
    verbs=_some("*", "get", "put"),
    api_groups=_some("*", "", "g"),
    resources=_some("*", "a", "a/s", "*/s", "b"),
    resource_names=_some("x", "y", least=0),
)
_path_rules = st.builds(
    Rule, verbs=_some("*", "get"), non_resource_urls=_some("*", "/a", "/a/*", "/a/b/*")
)
_rules = st.lists(_resource_rules | _path_rules, max_size=3)
_wanted = st.builds(
    Attributes,
    user=st.just(BOB),
    verb=st.sampled_from(["get", "put", "other"]),
    group=st.sampled_from(["", "g", "h"]),
    resource=st.sampled_from(["a", "b", "c"]),
    subresource=st.sampled_from(["", "s"]),
    name=st.sampled_from(["", "x", "z"]),
    path=st.none() | st.sampled_from(["/", "/a", "/a/b", "/a/b/c"]),
)


@given(_rules, _rules, st.lists(_wanted, max_size=20))
def test_what_is_covered_allows_nothing_new(
    held: list[Rule], given_away: list[Rule], wanted: list[Attributes]
) -> None:
    if uncovered(held, given_away):
        return
    for one in wanted:
        if any(rule.allows(one) for rule in given_away):
            assert any(rule.allows(one) for rule in held)


@given(_rules)
def test_one_may_give_what_one_has(held: list[Rule]) -> None:
    assert not uncovered(held, held)
