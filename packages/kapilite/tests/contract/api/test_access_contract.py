"""Who may do what: roles enforced, reviews, impersonation, and the tokens of service accounts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from server_support.kube import REAL, SECONDS

RBAC = "rbac.authorization.k8s.io"


def rule(resources: str, verbs: str, group: str = "", **more: Any) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


def subject(user: str) -> dict[str, str]:
    return {"kind": "User", "name": user, "apiGroup": RBAC}


async def allow(kube: Any, user: str, *rules: dict[str, Any]) -> None:
    """In the test's namespace, and when the server has learnt it."""
    roles, bindings = kube.of("roles"), kube.of("rolebindings")
    name = user.replace(":", "-")
    ref = {"apiGroup": RBAC, "kind": "Role", "name": name}
    (await kube.post(roles.path(), roles.new(name, rules=list(rules)))).ok
    body = bindings.new(name, roleRef=ref, subjects=[subject(user)])
    (await kube.post(bindings.path(), body)).ok
    first = rules[0]
    await until_allowed(kube, user, first["verbs"][0], first["resources"][0], first["apiGroups"][0])


async def until_allowed(kube: Any, user: str, verb: str, resource: str, group: str = "") -> None:
    plural, _, sub = resource.partition("/")
    attributes = {"verb": verb, "resource": plural, "subresource": sub, "group": group}
    attributes["namespace"] = kube.namespace
    reviews = kube.of("subjectaccessreviews")
    body = {**reviews.new(""), "spec": {"user": user, "resourceAttributes": attributes}}
    try:
        async with asyncio.timeout(SECONDS):
            while not (  # noqa: ASYNC110 - nothing announces it
                await kube.post(reviews.path(), body)
            ).ok["status"]["allowed"]:
                await asyncio.sleep(0.02)
    except TimeoutError:
        pytest.fail(f"{user} does not get to {verb} {resource}")


async def test_without_a_role_nothing_is_allowed(kube: Any) -> None:
    nobody = kube.acting("nobody")
    configmaps = kube.of("configmaps")

    assert (await nobody.get(configmaps.path())).refusal == (
        403,
        "Forbidden",
        (
            'configmaps is forbidden: User "nobody" cannot list resource "configmaps" in API group '
            f'"" in the namespace "{kube.namespace}"'
        ),
    )
    assert (await nobody.get(configmaps.path("x"))).refusal[2] == (
        'configmaps "x" is forbidden: User "nobody" cannot get resource "configmaps" in API group '
        f'"" in the namespace "{kube.namespace}"'
    )
    assert (await nobody.get("/api/v1/nodes")).refusal[2] == (
        'nodes is forbidden: User "nobody" cannot list resource "nodes" in API group "" at the '
        "cluster scope"
    )
    details = (await nobody.get(configmaps.path("x"))).json["details"]
    assert details == {"name": "x", "kind": "configmaps"}


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "configmaps/x", "get"),
        ("GET", "configmaps", "list"),
        ("GET", "configmaps?watch=1", "watch"),
        ("POST", "configmaps", "create"),
        ("PUT", "configmaps/x", "update"),
        ("PATCH", "configmaps/x", "patch"),
        ("DELETE", "configmaps/x", "delete"),
        ("DELETE", "configmaps", "deletecollection"),
    ],
)
async def test_each_request_has_its_verb(kube: Any, method: str, path: str, verb: str) -> None:
    user = f"only-{verb}"
    url = f"/api/v1/namespaces/{kube.namespace}/{path}"
    configmap = kube.of("configmaps").new("x")
    params = {"timeoutSeconds": "1"} if verb == "watch" else {}
    await allow(kube, user, rule("secrets", verb))

    forbidden = await kube.acting(user).call(method, url, configmap, **params)

    assert f'cannot {verb} resource "configmaps" in API group ""' in forbidden.refusal[2]
    await allow(kube, f"{user}-more", rule("configmaps", verb))
    headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else {}
    body = None if method in ("GET", "DELETE") else configmap
    allowed = await kube.acting(f"{user}-more").call(method, url, body, headers=headers, **params)
    assert allowed.status in (200, 201, 404), allowed.body


async def test_a_role_names_objects_and_subresources(kube: Any, gizmos: Any) -> None:
    for name in ("mine", "other"):
        (await kube.post(gizmos.path(), gizmos.new(name, spec={}))).ok
    rules = [
        rule("gizmos", "get", gizmos.group),
        rule("gizmos/status", "patch", gizmos.group, resourceNames=["mine"]),
    ]
    await allow(kube, "agent", *rules)
    agent = kube.acting("agent")
    status = {"status": {"phase": "A"}}

    assert (await agent.patch(gizmos.path("mine", "status"), status)).status == 200
    assert (await agent.patch(gizmos.path("other", "status"), status)).status == 403
    refused = await agent.patch(gizmos.path("mine"), status)
    assert f'cannot patch resource "gizmos" in API group "{gizmos.group}"' in refused.refusal[2]
    assert (await agent.get(gizmos.path("other"))).status == 200
    assert (
        'cannot get resource "gizmos/status"'
        in (await agent.get(gizmos.path("mine", "status"))).refusal[2]
    )


async def test_groups_and_stars_are_understood(kube: Any) -> None:
    roles, bindings = kube.of("clusterroles"), kube.of("clusterrolebindings")
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["/healthz/*"], "verbs": ["get"]},
    ]
    await kube.outside(roles, roles.new(kube.name(), rules=everything))
    team = {"kind": "Group", "name": kube.name("team"), "apiGroup": RBAC}
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": kube.name()}
    await kube.outside(bindings, bindings.new(kube.name(), roleRef=ref, subjects=[team]))
    member = kube.acting("someone", [team["name"]])

    await member.until("/api/v1/nodes", lambda answer: answer.status == 200)

    configmaps = kube.of("configmaps")
    assert (await member.post(configmaps.path(), configmaps.new("x"))).status == 201
    assert (await kube.acting("someone").get("/api/v1/nodes")).status == 403


@pytest.mark.whole_kubernetes
async def test_no_user_grants_rights_that_they_lack(kube: Any) -> None:
    await allow(
        kube,
        "manager",
        rule("roles rolebindings", "get create update", RBAC),
        rule("configmaps", "get"),
    )
    manager = kube.acting("manager")
    roles, bindings = kube.of("roles"), kube.of("rolebindings")

    less = roles.new("less", rules=[rule("configmaps", "get")])
    assert (await manager.post(roles.path(), less)).status == 201
    more = roles.new("more", rules=[rule("secrets", "get")])
    code, reason, message = (await manager.post(roles.path(), more)).refusal
    assert (code, reason) == (403, "Forbidden")
    assert message.startswith(
        f'roles.{RBAC} "more" is forbidden: user "manager" (groups=["system:authenticated"]) is '
        "attempting to grant RBAC permissions not currently held:\n"
    )
    assert message.endswith('{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}')
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    grant = bindings.new("all", roleRef=ref, subjects=[subject("manager")])
    assert (await manager.post(bindings.path(), grant)).refusal[:2] == (403, "Forbidden")


@pytest.mark.whole_kubernetes
async def test_a_binding_keeps_its_role(kube: Any) -> None:
    await allow(kube, "someone", rule("configmaps", "get"))
    path = kube.of("rolebindings").path("someone")

    answer = await kube.patch(path, {"roleRef": {"name": "other"}})

    assert answer.refusal[:2] == (422, "Invalid")
    assert "cannot change roleRef" in answer.refusal[2]


@pytest.mark.whole_kubernetes
async def test_reviews_of_another_user(kube: Any) -> None:
    await allow(kube, "reader", rule("configmaps", "get"))
    reviews = kube.of("subjectaccessreviews")

    async def ask(**attributes: str) -> dict[str, Any]:
        wanted = {"namespace": kube.namespace, "resource": "configmaps", **attributes}
        body = {**reviews.new(""), "spec": {"user": "reader", "resourceAttributes": wanted}}
        answer = await kube.post(reviews.path(), body)
        assert answer.status == 201
        return answer.json["status"]

    yes = await ask(verb="get")
    assert yes["allowed"] is True
    assert yes["reason"] == (
        f'RBAC: allowed by RoleBinding "reader/{kube.namespace}" of Role "reader" to User "reader"'
    )
    assert (await ask(verb="list"))["allowed"] is False
    assert (await ask(verb="get", namespace="default"))["allowed"] is False
    body = {**reviews.new(""), "spec": {"user": "reader"}}
    assert (await kube.post(reviews.path(), body)).refusal[:2] == (422, "Invalid")


async def test_reviews_of_oneself(kube: Any) -> None:
    await allow(kube, "reader", rule("configmaps", "get list"))
    reader = kube.acting("reader")
    access, rules = kube.of("selfsubjectaccessreviews"), kube.of("selfsubjectrulesreviews")

    wanted = {"namespace": kube.namespace, "resource": "configmaps", "verb": "list"}
    asked = {**access.new(""), "spec": {"resourceAttributes": wanted}}
    assert (await reader.post(access.path(), asked)).ok["status"]["allowed"] is True
    path = {"path": "/version", "verb": "get"}
    asked = {**access.new(""), "spec": {"nonResourceAttributes": path}}
    assert (await reader.post(access.path(), asked)).ok["status"]["allowed"] is True
    listed = await reader.post(
        rules.path(), {**rules.new(""), "spec": {"namespace": kube.namespace}}
    )
    status = listed.ok["status"]
    assert status["incomplete"] is False
    expected = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    assert expected in status["resourceRules"]
    assert "/version" in [u for r in status["nonResourceRules"] for u in r["nonResourceURLs"]]


async def test_impersonation_is_a_right_of_its_own(kube: Any) -> None:
    account = await service_account(kube, "imp")
    code, reason, message = (await account.acting("admin").get("/api/v1/nodes")).refusal
    assert (code, reason) == (403, "Forbidden")
    what, verb = ('users "admin"', 'impersonate resource "users"')
    if REAL and kube.minor >= 36:  # which asks first whether the user may be acted for in this
        what, verb = ("nodes", 'impersonate-on:user-info:list resource "nodes"')
    assert message == (
        f'{what} is forbidden: User "system:serviceaccount:{kube.namespace}:imp" cannot '
        f'{verb} in API group "" at the cluster scope'
    )


async def service_account(kube: Any, name: str, **spec: Any) -> Any:
    """The server as a new service account sees it."""
    accounts = kube.of("serviceaccounts")
    (await kube.post(accounts.path(), accounts.new(name))).ok
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    issued = await kube.post(accounts.path(name, "token"), request)
    assert issued.status == 201, issued.body
    return kube.acting(token=issued.json["status"]["token"])


async def test_a_service_account_acts_by_its_token(kube: Any) -> None:
    account = await service_account(kube, "robot")
    name = f"system:serviceaccount:{kube.namespace}:robot"
    configmaps = kube.of("configmaps")

    refused = await account.get(configmaps.path())
    assert refused.refusal[2].startswith(f'configmaps is forbidden: User "{name}" cannot list')

    roles, bindings = kube.of("roles"), kube.of("rolebindings")
    await kube.post(roles.path(), roles.new("robot", rules=[rule("configmaps", "list")]))
    ref = {"apiGroup": RBAC, "kind": "Role", "name": "robot"}
    robot = {"kind": "ServiceAccount", "name": "robot", "namespace": kube.namespace}
    await kube.post(bindings.path(), bindings.new("robot", roleRef=ref, subjects=[robot]))
    await account.until(configmaps.path(), lambda answer: answer.status == 200)
    assert (await account.get(kube.of("secrets").path())).status == 403


async def test_a_token_says_whose_it_is_and_until_when(kube: Any) -> None:
    account = await service_account(kube, "robot", expirationSeconds=3600)
    token = account.headers["Authorization"].removeprefix("Bearer ")
    reviews = kube.of("tokenreviews")

    answer = await kube.post(reviews.path(), {**reviews.new(""), "spec": {"token": token}})

    status = answer.ok["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == f"system:serviceaccount:{kube.namespace}:robot"
    assert status["user"]["groups"] == [
        "system:serviceaccounts",
        f"system:serviceaccounts:{kube.namespace}",
        "system:authenticated",
    ]
    bad = await kube.post(reviews.path(), {**reviews.new(""), "spec": {"token": "bad"}})
    assert bad.ok["status"].get("authenticated", False) is False


async def test_a_token_dies_with_its_account(kube: Any) -> None:
    account = await service_account(kube, "robot")
    assert (await account.get("/api/v1/nodes")).status == 403

    await kube.delete(kube.of("serviceaccounts").path("robot"))

    await account.until("/api/v1/nodes", lambda answer: answer.status == 401)


@pytest.mark.parametrize(
    ("spec", "code"), [({"expirationSeconds": 5}, 422), ({"expirationSeconds": 2**33}, 422)]
)
async def test_a_token_lasts_ten_minutes_at_least(kube: Any, spec: Any, code: int) -> None:
    accounts = kube.of("serviceaccounts")
    await kube.post(accounts.path(), accounts.new("robot"))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}

    assert (await kube.post(accounts.path("robot", "token"), request)).status == code
    assert (await kube.post(accounts.path("none", "token"), request)).status in (404, 422)


async def test_a_bad_token_has_no_user(kube: Any) -> None:
    stranger = kube.acting(token="not-a-token")

    assert (await stranger.get("/api/v1/nodes")).refusal == (401, "Unauthorized", "Unauthorized")


async def test_a_client_without_a_token_is_anonymous(kube: Any) -> None:
    anonymous = kube.acting()
    del anonymous.headers["Authorization"]

    assert (await anonymous.get("/version")).status == 200
    assert (await anonymous.get("/healthz")).body == b"ok"
    code, reason, message = (await anonymous.get("/api/v1/nodes")).refusal
    assert (code, reason) in ((401, "Unauthorized"), (403, "Forbidden"))
    assert message == "Unauthorized" or 'User "system:anonymous" cannot list' in message


async def test_everybody_may_ask_what_there_is(kube: Any) -> None:
    someone = kube.acting("someone", ["system:authenticated"])

    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v2", "/version"):
        assert (await someone.get(path)).status == 200, path
    assert (await someone.get("/metrics")).refusal == (
        403,
        "Forbidden",
        'forbidden: User "someone" cannot get path "/metrics"',
    )


async def test_who_am_i(kube: Any) -> None:
    kube.needs(28, "SelfSubjectReview")
    reviews = kube.of("selfsubjectreviews")

    answer = await kube.acting("someone").post(reviews.path(), reviews.new(""))

    assert answer.ok["status"]["userInfo"]["username"] == "someone"


async def test_roles_are_gathered_by_label(kube: Any) -> None:
    roles = kube.of("clusterroles")
    label = {"aggregate": kube.name()}
    part = roles.new(kube.name("part"), rules=[rule("pods", "get")], metadata={"labels": label})
    whole = roles.new(
        kube.name("whole"), aggregationRule={"clusterRoleSelectors": [{"matchLabels": label}]}
    )

    await kube.outside(roles, part)
    made = await kube.outside(roles, whole)

    assert made["aggregationRule"] == whole["aggregationRule"]


@pytest.mark.whole_kubernetes
@pytest.mark.parametrize("name", ["cluster-admin", "admin", "edit", "view"])
async def test_the_roles_that_every_cluster_has(kube: Any, name: str) -> None:
    found = (await kube.get(kube.of("clusterroles").path(name))).ok

    assert found["rules"] or found["aggregationRule"]
    assert found["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"


async def test_a_role_may_have_a_colon_in_its_name(kube: Any) -> None:
    for plural, kind in (("roles", "Role"), ("rolebindings", "RoleBinding")):
        resource = kube.of(plural)
        body = resource.new("system:x")
        if kind == "RoleBinding":
            group = "rbac.authorization.k8s.io"
            body["roleRef"] = {"apiGroup": group, "kind": "Role", "name": "system:x"}
        assert (await kube.post(resource.path(), body)).status == 201
        refused = await kube.post(resource.path(), {**body, "metadata": {"name": "a%b"}})
        assert refused.refusal[:2] == (422, "Invalid")


async def test_an_apply_that_creates_takes_the_right_to_create(kube: Any) -> None:
    configs, roles, bindings = (kube.of(p) for p in ("configmaps", "roles", "rolebindings"))
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}]
    (await kube.post(roles.path(), roles.new("p", rules=rules))).ok
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "apiGroup": group, "name": "patcher"}
    ref = {"apiGroup": group, "kind": "Role", "name": "p"}
    (await kube.post(bindings.path(), bindings.new("p", roleRef=ref, subjects=[subject]))).ok
    acting = kube.acting(user="patcher")

    refused = await acting.apply(configs, configs.new("x", data={"a": "1"}), "one")

    assert refused.refusal[:2] == (403, "Forbidden")
    (await kube.post(configs.path(), configs.new("x"))).ok
    assert (await acting.apply(configs, configs.new("x", data={"a": "1"}), "one")).status == 200
