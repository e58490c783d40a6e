"""Questions about access, and the answers of a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kapilite.authn import Authenticator, User
from kapilite.authorization import Authorizer, bootstrap, reviews
from kapilite.authorization.kinds import KINDS
from kapilite.errors import ApiError
from kapilite.storage.events import Key
from kapilite.storage.store import Store

GROUP = "rbac.authorization.k8s.io"
KIND = {kind.kind: kind for kind in KINDS}
BOB = User("bob", ("system:authenticated",), "7", {"scope": ("all",)})
PODS = {"verb": "get", "resource": "pods", "namespace": "a"}
RULE = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]}


class Cluster:
    """Bob may get the pod `x` in the namespace `a`."""

    def __init__(self, store: Store) -> None:
        bootstrap.ensure(store)
        ref = {"kind": "Role", "name": "r"}
        subjects = [{"kind": "User", "name": "bob"}]
        for resource, body in (
            ("roles", {"rules": [RULE]}),
            ("rolebindings", {"roleRef": ref, "subjects": subjects}),
        ):
            meta = {"name": "r", "namespace": "a"}
            obj = {"apiVersion": "v1", "kind": "x", "metadata": meta, **body}
            store.commit("ADDED", Key(f"{resource}.{GROUP}", "a", "r"), obj, None)
        self.store = store
        self.authorizer = Authorizer(store)

    def ask(self, kind: str, spec: Any = None, namespace: str = "", **obj: Any) -> dict[str, Any]:
        return reviews.answer(
            KIND[kind],
            {**obj, **({"spec": spec} if spec is not None else {})},
            BOB,
            authorizer=self.authorizer,
            authenticator=Authenticator({"token": BOB}),
            namespace=namespace,
        )

    def refusal(self, kind: str, spec: Any, namespace: str = "", **obj: Any) -> tuple[int, str]:
        with pytest.raises(ApiError) as raised:
            self.ask(kind, spec, namespace, **obj)
        return raised.value.code, raised.value.message


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    store = Store(str(tmp_path / "db"))
    yield Cluster(store)
    store.close()


def test_whether_another_may(cluster: Cluster) -> None:
    yes = cluster.ask(
        "SubjectAccessReview", {"user": "bob", "resourceAttributes": {**PODS, "name": "x"}}
    )
    assert (yes["kind"], yes["apiVersion"]) == ("SubjectAccessReview", "authorization.k8s.io/v1")
    assert yes["spec"]["user"] == "bob"
    assert yes["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by RoleBinding "r/a" of Role "r" to User "bob"',
    }
    no = cluster.ask("SubjectAccessReview", {"user": "bob", "resourceAttributes": PODS})
    assert no["status"] == {"allowed": False}
    group = {"groups": ["system:masters"], "resourceAttributes": PODS}
    assert cluster.ask("SubjectAccessReview", group)["status"] == {"allowed": True}


@pytest.mark.parametrize("attributes", [{}, {"path": "", "verb": "get"}, {"path": "/", "verb": ""}])
def test_a_question_about_no_path_is_no_question_about_a_resource(
    cluster: Cluster, attributes: dict[str, str]
) -> None:
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    obj = {"apiVersion": "v1", "kind": "x", "metadata": {"name": "all"}, "rules": everything}
    cluster.store.commit("ADDED", Key(f"clusterroles.{GROUP}", "", "all"), obj, None)
    binding = {
        "apiVersion": "v1",
        "kind": "x",
        "metadata": {"name": "all"},
        "roleRef": {"kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    cluster.store.commit("ADDED", Key(f"clusterrolebindings.{GROUP}", "", "all"), binding, None)
    spec = {"user": "bob", "nonResourceAttributes": attributes}
    assert cluster.ask("SubjectAccessReview", spec)["status"] == {"allowed": False}


def test_whether_one_may_oneself(cluster: Cluster) -> None:
    spec: dict[str, Any] = {"resourceAttributes": {**PODS, "name": "x"}}
    assert cluster.ask("SelfSubjectAccessReview", spec)["status"]["allowed"]
    # Whatever user the question names, it is about the one who asks.
    spec = {"resourceAttributes": PODS, "user": "root", "groups": ["system:masters"]}
    assert not cluster.ask("SelfSubjectAccessReview", spec)["status"]["allowed"]
    spec = {"nonResourceAttributes": {"path": "/version", "verb": "get"}}
    assert cluster.ask("SelfSubjectAccessReview", spec)["status"]["allowed"]


_NEITHER = (
    'spec.resourceAttributes: Invalid value: "null": '
    "exactly one of nonResourceAttributes or resourceAttributes must be specified"
)
_NOBODY = 'spec.user: Invalid value: "": at least one of user or group must be specified'
_PATH = 'Invalid value: authorization.NonResourceAttributes{Path:"/x", Verb:"get"}'


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("SubjectAccessReview", {}, f"[{_NEITHER}, {_NOBODY}]"),
        ("SubjectAccessReview", None, f"[{_NEITHER}, {_NOBODY}]"),
        ("SubjectAccessReview", {"user": "u"}, _NEITHER),
        ("SubjectAccessReview", {"resourceAttributes": PODS}, _NOBODY),
        ("SelfSubjectAccessReview", {}, _NEITHER),
        (
            "SelfSubjectAccessReview",
            {
                "resourceAttributes": PODS,
                "nonResourceAttributes": {"path": "/x", "verb": "get"},
            },
            (
                f"spec.nonResourceAttributes: {_PATH}: "
                "cannot be specified in combination with resourceAttributes"
            ),
        ),
        (
            "LocalSubjectAccessReview",
            {"user": "u", "resourceAttributes": {**PODS, "namespace": "b"}},
            (
                'spec.resourceAttributes.namespace: Invalid value: "b": '
                "must match metadata.namespace"
            ),
        ),
        (
            "LocalSubjectAccessReview",
            {"user": "u", "nonResourceAttributes": {"path": "/x", "verb": "get"}},
            f"spec.nonResourceAttributes: {_PATH}: disallowed on this kind of request",
        ),
    ],
)
def test_questions_that_make_no_sense(
    cluster: Cluster, kind: str, spec: Any, expected: str
) -> None:
    text = f'.authorization.k8s.io "" is invalid: {expected}'
    assert cluster.refusal(kind, spec, "a") == (422, text)


@pytest.mark.parametrize("kind", ["SubjectAccessReview", "SelfSubjectAccessReview"])
def test_a_question_has_no_name(cluster: Cluster, kind: str) -> None:
    spec = {"user": "u", "resourceAttributes": PODS}
    code, message = cluster.refusal(kind, spec, metadata={"name": "n"})
    assert code == 422
    assert "metadata: Invalid value" in message
    assert cluster.ask(kind, spec, metadata={"creationTimestamp": None})


@pytest.mark.parametrize(
    "spec",
    ["x", [], {"user": 1}, {"resourceAttributes": "x"}, {"resourceAttributes": {"verb": ["get"]}}],
)
def test_malformed_questions(cluster: Cluster, spec: Any) -> None:
    code, _ = cluster.refusal("SubjectAccessReview", spec)
    assert code in (400, 422)
    assert cluster.refusal("SubjectAccessReview", {}, metadata="x")[0] == 400


def test_within_a_namespace(cluster: Cluster) -> None:
    spec = {"user": "bob", "resourceAttributes": {**PODS, "name": "x"}}
    answer = cluster.ask("LocalSubjectAccessReview", spec, "a")
    assert answer["status"]["allowed"]
    assert answer["metadata"]["namespace"] == "a"


def test_all_that_one_may(cluster: Cluster) -> None:
    answer = cluster.ask("SelfSubjectRulesReview", {"namespace": "a"})
    status = answer["status"]
    assert RULE in status["resourceRules"]
    assert not status["incomplete"]
    assert "evaluationError" not in status
    urls = [url for rule in status["nonResourceRules"] for url in rule["nonResourceURLs"]]
    assert "/apis/*" in urls
    other = cluster.ask("SelfSubjectRulesReview", {"namespace": "b"})["status"]
    assert RULE not in other["resourceRules"]
    assert cluster.refusal("SelfSubjectRulesReview", {}) == (400, "no namespace on request")


def test_who_one_is(cluster: Cluster) -> None:
    answer = cluster.ask("SelfSubjectReview")
    assert answer["apiVersion"] == "authentication.k8s.io/v1"
    assert answer["status"]["userInfo"] == {
        "username": "bob",
        "uid": "7",
        "groups": ["system:authenticated"],
        "extra": {"scope": ["all"]},
    }
    assert "spec" not in answer


def test_whose_token_it_is(cluster: Cluster) -> None:
    issuer = "https://kubernetes.default.svc"
    good = cluster.ask("TokenReview", {"token": "token", "audiences": ["x", issuer]})["status"]
    assert good["authenticated"]
    assert good["user"]["username"] == "bob"
    assert good["audiences"] == [issuer]
    for spec in ({"token": "wrong"}, {"token": "token", "audiences": ["x"]}):
        bad = cluster.ask("TokenReview", spec)["status"]
        assert bad == {"user": {}, "error": "invalid bearer token"}
    assert cluster.refusal("TokenReview", {}) == (
        400,
        "token is required for TokenReview in authentication",
    )
