"""Which configurations the server takes, and what it makes of them."""

from __future__ import annotations

from typing import Any

import pytest

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
INVALID, REQUIRED = "FieldValueInvalid", "FieldValueRequired"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
FORM = "; desired format: https://host[/path]"


def rule(**fields: Any) -> dict[str, Any]:
    good = {
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["pods"],
    }
    return {"rules": [good | fields]}


def url(text: str) -> dict[str, Any]:
    return {"clientConfig": {"url": text}}


def service(**fields: Any) -> dict[str, Any]:
    return {"clientConfig": {"service": {"name": "a", "namespace": "b"} | fields}}


def unsupported(value: str, *supported: str) -> tuple[str, str]:
    values = ", ".join(f'"{text}"' for text in supported)
    text = f'Unsupported value: "{value}": supported values: {values}'
    return "FieldValueNotSupported", text


def wrong(value: str, why: str) -> tuple[str, str]:
    return INVALID, f"Invalid value: {value}: {why}"


def needed(why: str = "") -> tuple[str, str]:
    return REQUIRED, f"Required value: {why}" if why else "Required value"


PROBLEMS: list[tuple[dict[str, Any], list[tuple[str, tuple[str, str]]]]] = [
    ({"name": ""}, [("name", needed())]),
    (
        {"name": "a.b"},
        [
            (
                "name",
                wrong('"a.b"', "should be a domain with at least three segments separated by dots"),
            )
        ],
    ),
    ({"name": "A_b.c.d"}, [("name", wrong('"A_b.c.d"', SUBDOMAIN))]),
    ({"sideEffects": None}, [("sideEffects", needed("must specify one of None, NoneOnDryRun"))]),
    ({"sideEffects": "Some"}, [("sideEffects", unsupported("Some", "None", "NoneOnDryRun"))]),
    ({"failurePolicy": "X"}, [("failurePolicy", unsupported("X", "Fail", "Ignore"))]),
    ({"matchPolicy": "X"}, [("matchPolicy", unsupported("X", "Equivalent", "Exact"))]),
    *(
        (
            {"timeoutSeconds": value},
            [
                (
                    "timeoutSeconds",
                    wrong(str(value), "the timeout value must be between 1 and 30 seconds"),
                )
            ],
        )
        for value in (0, 31, -1)
    ),
    (
        {"admissionReviewVersions": []},
        [("admissionReviewVersions", needed("must specify one of v1, v1beta1"))],
    ),
    (
        {"admissionReviewVersions": ["v9"]},
        [
            (
                "admissionReviewVersions",
                wrong('[]string{"v9"}', "must include at least one of v1, v1beta1"),
            )
        ],
    ),
    (
        {"admissionReviewVersions": ["v1", "v1"]},
        [("admissionReviewVersions[1]", wrong('"v1"', "duplicate version"))],
    ),
    (
        {"rules": [{}]},
        [
            (f"rules[0].{field}", needed())
            for field in ("operations", "apiGroups", "apiVersions", "resources")
        ],
    ),
    (
        rule(operations=["*", "PUT"]),
        [
            (
                "rules[0].operations",
                wrong(
                    '[]admissionregistration.OperationType{"*", "PUT"}',
                    "if '*' is present, must not specify other operations",
                ),
            ),
            (
                "rules[0].operations[1]",
                unsupported("PUT", "*", "CONNECT", "CREATE", "DELETE", "UPDATE"),
            ),
        ],
    ),
    (
        rule(apiGroups=["*", "a"]),
        [
            (
                "rules[0].apiGroups",
                wrong('[]string{"*", "a"}', "if '*' is present, must not specify other API groups"),
            )
        ],
    ),
    (
        rule(apiVersions=["*", ""]),
        [
            (
                "rules[0].apiVersions",
                wrong(
                    '[]string{"*", ""}', "if '*' is present, must not specify other API versions"
                ),
            ),
            ("rules[0].apiVersions[1]", needed()),
        ],
    ),
    (
        rule(resources=["*/*", "pods"]),
        [
            (
                "rules[0].resources",
                wrong(
                    '[]string{"*/*", "pods"}',
                    "if '*/*' is present, must not specify other resources",
                ),
            )
        ],
    ),
    (
        rule(resources=["pods/*", "pods/status"]),
        [
            (
                "rules[0].resources[1]",
                wrong('"pods/status"', "if 'pods/*' is present, must not specify pods/status"),
            )
        ],
    ),
    (
        rule(resources=["*/status", "pods/status"]),
        [
            (
                "rules[0].resources[1]",
                wrong('"pods/status"', "if '*/status' is present, must not specify pods/status"),
            )
        ],
    ),
    (
        rule(resources=["*", "pods"]),
        [
            (
                "rules[0].resources",
                wrong(
                    '[]string{"*", "pods"}',
                    "if '*' is present, must not specify other resources without subresources",
                ),
            )
        ],
    ),
    (rule(resources=[""]), [("rules[0].resources[0]", needed())]),
    (rule(scope="X"), [("rules[0].scope", unsupported("X", "*", "Cluster", "Namespaced"))]),
    *(
        (
            {"clientConfig": config},
            [("clientConfig", needed("exactly one of url or service is required"))],
        )
        for config in (None, {}, {"url": "https://a", "service": {"name": "a", "namespace": "b"}})
    ),
    (
        url("http://a"),
        [
            (
                "clientConfig.url",
                wrong('"http"', f"'https' is the only allowed URL scheme{FORM}"),
            )
        ],
    ),
    (
        url("https://u:p@a/"),
        [
            (
                "clientConfig.url",
                wrong('"u:p"', "user information is not permitted in the URL"),
            )
        ],
    ),
    (
        url("https://a/?x=y#z"),
        [
            ("clientConfig.url", wrong('"z"', "fragments are not permitted in the URL")),
            ("clientConfig.url", wrong('"x=y"', "query parameters are not permitted in the URL")),
        ],
    ),
    (
        url("https:///x"),
        [("clientConfig.url", wrong('""', f"host must be provided{FORM}"))],
    ),
    (
        service(name="", namespace=None),
        [
            ("clientConfig.service.name", needed("service name is required")),
            ("clientConfig.service.namespace", needed("service namespace is required")),
        ],
    ),
    (
        service(port=70000),
        [
            (
                "clientConfig.service.port",
                wrong("70000", "port is not valid: must be between 1 and 65535, inclusive"),
            )
        ],
    ),
    (
        service(path="//"),
        [("clientConfig.service.path", wrong('"//"', "segment[0] may not be empty"))],
    ),
    (
        service(path="/a//b/C_d/"),
        [
            ("clientConfig.service.path", wrong('"/a//b/C_d/"', "segment[1] may not be empty")),
            ("clientConfig.service.path", wrong('"/a//b/C_d/"', f"segment[3]: {SUBDOMAIN}")),
        ],
    ),
    (
        {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        [
            (
                "objectSelector.matchExpressions[0].values",
                needed("must be specified when `operator` is 'In' or 'NotIn'"),
            )
        ],
    ),
    (
        {
            "namespaceSelector": {
                "matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]
            }
        },
        [
            (
                "namespaceSelector.matchExpressions[0].values",
                (
                    "FieldValueForbidden",
                    "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                ),
            )
        ],
    ),
    (
        {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "X"}]}},
        [
            (
                "objectSelector.matchExpressions[0].operator",
                wrong('"X"', "not a valid selector operator"),
            )
        ],
    ),
]


@pytest.mark.whole_kubernetes
@pytest.mark.parametrize(("fields", "expected"), PROBLEMS)
async def test_a_configuration_that_is_not_valid(kube: Any, fields: Any, expected: Any) -> None:
    for kind in ("validating", "mutating"):
        obj = kube.configuration(kind, "x", kube.webhook("/h") | fields)
        reply = await kube.post(CONFIGURATIONS.format(kind), obj, dryRun="All")
        assert reply.status == 422, reply.body
        assert reply.causes == [(f"webhooks[0].{field}", *why) for field, why in expected]


async def test_two_webhooks_of_one_name(kube: Any) -> None:
    obj = kube.configuration("mutating", "x", kube.webhook("/h"), kube.webhook("/h"))
    reply = await kube.post(CONFIGURATIONS.format("mutating"), obj, dryRun="All")
    text = 'Duplicate value: "h.example.com"'
    assert reply.causes == [("webhooks[1].name", "FieldValueDuplicate", text)]


@pytest.mark.whole_kubernetes
async def test_reinvocation_policies(kube: Any) -> None:
    obj = kube.configuration("mutating", "x", kube.webhook("/h", reinvocationPolicy="X"))
    reply = await kube.post(CONFIGURATIONS.format("mutating"), obj, dryRun="All")
    why = unsupported("X", "IfNeeded", "Never")
    assert reply.causes == [("webhooks[0].reinvocationPolicy", *why)]


@pytest.mark.parametrize("kind", ["validating", "mutating"])
async def test_what_is_left_out_is_filled_in(kube: Any, kind: str) -> None:
    webhook = {
        "name": "h.example.com",
        "clientConfig": {"service": {"name": "a", "namespace": "b"}},
        "rules": rule()["rules"],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    obj = kube.configuration(kind, "x", webhook)
    made = await kube.post(CONFIGURATIONS.format(kind), obj, dryRun="All")
    assert made.status == 201
    assert made.body["metadata"]["generation"] == 1
    again = {"reinvocationPolicy": "Never"} if kind == "mutating" else {}
    (stored,) = made.body["webhooks"]
    assert stored == {
        **webhook,
        "clientConfig": {"service": {"name": "a", "namespace": "b", "port": 443}},
        "rules": [webhook["rules"][0] | {"scope": "*"}],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
        **again,
    }


@pytest.mark.parametrize("bundle", ["", "Cg==", "Zm9v"])
async def test_a_ca_bundle_need_not_be_there_yet(kube: Any, bundle: str) -> None:
    """Programs that issue certificates fill it in later."""
    config = {"clientConfig": {"url": "https://a", "caBundle": bundle}}
    obj = kube.configuration("validating", "x", kube.webhook("/h") | config)
    made = await kube.post(CONFIGURATIONS.format("validating"), obj, dryRun="All")
    assert made.status == 201


async def test_a_ca_bundle_that_is_not_base64(kube: Any) -> None:
    config = {"clientConfig": {"url": "https://a", "caBundle": "!!!"}}
    obj = kube.configuration("validating", "x", kube.webhook("/h") | config)
    reply = await kube.post(CONFIGURATIONS.format("validating"), obj, dryRun="All")
    assert reply.status in (400, 422)


@pytest.mark.whole_kubernetes
async def test_the_table(kube: Any) -> None:
    obj = kube.configuration("validating", "x", kube.webhook("/a"), kube.webhook("/b"))
    made = await kube.post(CONFIGURATIONS.format("validating"), obj)
    path = f"{CONFIGURATIONS.format('validating')}/{made.body['metadata']['name']}"
    table = await kube.table(path)
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Webhooks", "Age"]
    assert table["rows"][0]["cells"][:2] == [made.body["metadata"]["name"], 2]
