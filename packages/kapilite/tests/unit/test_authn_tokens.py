"""Tokens of service accounts: what one is worth, and for how long."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kapilite.authn import (
    Authenticator,
    InvalidToken,
    ServiceAccountTokens,
    User,
    keys,
)
from kapilite.authn.discovery import configuration, key_set
from kapilite.authn.requests import SECRET_TYPE, answer, fill_secret
from kapilite.authn.tokens import ISSUER, Bound
from kapilite.credentials.pki import PkiError
from kapilite.errors import ApiError
from kapilite.storage.events import Key, as_object
from kapilite.storage.store import Store
from kubebasics.timestamps import timestamp

KEY = keys.generate()
ROBOT = "system:serviceaccount:a:robot"


class Cluster:
    """A store with a service account `a/robot`, and who issues its tokens."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.tokens = ServiceAccountTokens(store, KEY)
        self.account = self.put("serviceaccounts", "robot")

    def put(self, resource: str, name: str, uid: str = "", **body: Any) -> dict[str, Any]:
        key = Key(resource, "" if resource == "nodes" else "a", name)
        old = self.store.get(key)
        meta = {"name": name, "namespace": "a", "uid": uid or f"uid-of-{name}"}
        meta |= body.pop("metadata", {})
        obj = {"apiVersion": "v1", "kind": "x", "metadata": meta, **body}
        self.store.commit("MODIFIED" if old else "ADDED", key, obj, old)
        return obj

    def remove(self, resource: str, name: str) -> None:
        key = Key(resource, "a", name)
        old = self.store.get(key)
        assert old
        self.store.commit("DELETED", key, as_object(old.body), old)

    def issue(self, **more: Any) -> str:
        return self.tokens.issue(self.account, **{"seconds": 600, **more})

    def request(self, **spec: Any) -> dict[str, Any]:
        return answer(
            {"spec": spec}, store=self.store, tokens=self.tokens, namespace="a", name="robot"
        )

    def refuses(self, token: str, *audiences: str) -> bool:
        with pytest.raises(InvalidToken) as raised:
            self.tokens.verify(token, audiences or (ISSUER,))
        assert token not in str(raised.value)
        return True


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    store = Store(str(tmp_path / "db"))
    yield Cluster(store)
    store.close()


def claims(token: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


def test_a_token_tells_its_service_account(cluster: Cluster) -> None:
    token = cluster.issue()
    user = cluster.tokens.verify(token).user
    assert (user.name, user.uid) == (ROBOT, "uid-of-robot")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:a")
    jti = claims(token)["jti"]
    assert user.extra == {"authentication.kubernetes.io/credential-id": (f"JTI={jti}",)}
    known = Authenticator({}, cluster.tokens).by_token(token).user
    assert known.groups[-1] == "system:authenticated"


def test_the_claims_are_those_of_kubernetes(cluster: Cluster) -> None:
    found = claims(cluster.issue())
    assert (found["iss"], found["aud"], found["sub"]) == (ISSUER, [ISSUER], ROBOT)
    assert found["exp"] - found["iat"] == 600
    assert found["nbf"] == found["iat"]
    assert found["kubernetes.io"] == {
        "namespace": "a",
        "serviceaccount": {"name": "robot", "uid": "uid-of-robot"},
    }


def test_an_account_that_is_gone_or_another_takes_its_tokens_along(cluster: Cluster) -> None:
    token = cluster.issue()
    cluster.remove("serviceaccounts", "robot")
    assert cluster.refuses(token)
    cluster.put("serviceaccounts", "robot", uid="another")
    assert cluster.refuses(token)


@pytest.mark.parametrize("role", ["pod", "secret"])
def test_a_bound_token_lives_as_long_as_what_it_is_bound_to(cluster: Cluster, role: str) -> None:
    cluster.put(f"{role}s", "x")
    token = cluster.issue(bound={role: Bound("x", "uid-of-x")})
    assert cluster.tokens.verify(token)
    cluster.put(f"{role}s", "x", uid="another")
    assert cluster.refuses(token)
    cluster.remove(f"{role}s", "x")
    assert cluster.refuses(token)


def test_a_deleted_object_holds_tokens_up_for_a_minute(cluster: Cluster) -> None:
    token = cluster.issue()
    now = datetime.now(UTC)
    cluster.put("serviceaccounts", "robot", metadata={"deletionTimestamp": timestamp(now)})
    assert cluster.tokens.verify(token)
    before = timestamp(now - timedelta(minutes=2))
    cluster.put("serviceaccounts", "robot", metadata={"deletionTimestamp": before})
    assert cluster.refuses(token)
    cluster.put("serviceaccounts", "robot", metadata={"deletionTimestamp": "some day"})
    assert cluster.refuses(token)


def test_the_user_of_a_pods_token_knows_the_pod(cluster: Cluster) -> None:
    cluster.put("pods", "x", spec={"serviceAccountName": "robot", "nodeName": "n"})
    cluster.put("nodes", "n")
    made = cluster.request(boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "x"})
    user = cluster.tokens.verify(made["status"]["token"]).user
    prefix = "authentication.kubernetes.io/"
    extra = {key.removeprefix(prefix): value for key, value in user.extra.items()}
    assert extra["pod-name"] == ("x",)
    assert extra["pod-uid"] == ("uid-of-x",)
    assert extra["node-name"] == ("n",)


def test_a_token_is_for_its_audiences(cluster: Cluster) -> None:
    token = cluster.issue(audiences=["vault", "other"])
    assert cluster.refuses(token)
    assert cluster.tokens.verify(token, ["x", "other"]).audiences == ("other",)
    assert cluster.refuses(cluster.issue(), "vault")


def test_a_token_expires(cluster: Cluster) -> None:
    assert cluster.refuses(cluster.issue(seconds=-1))


def _pem(key: Any) -> bytes:
    public: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return public


def test_forged_tokens(cluster: Cluster) -> None:
    good = cluster.issue()
    said = claims(good)
    head, body, signature = good.split(".")

    def encoded(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    other = ec.generate_private_key(ec.SECP256R1())
    large = rsa.generate_private_key(65537, 2048)
    admin = encoded(said | {"sub": "system:serviceaccount:kube-system:admin"})
    for forged in (
        jwt.encode(said, other, algorithm="ES256", headers={"kid": KEY.key_id}),
        jwt.encode(said, large, algorithm="RS256", headers={"kid": KEY.key_id}),
        f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{body}.",
        f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{body}.{signature}",
        f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{body}.{signature}",
        f"{head}.{admin}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}",
        f"{head}.{body}.{signature}.{signature}",
        jwt.encode(said, other, algorithm="ES256", headers={"jwk": keys.generate().as_jwk()}),
    ):
        assert cluster.refuses(forged)
    with pytest.raises(jwt.InvalidKeyError):  # the public key is no secret to sign with
        jwt.encode(said, _pem(KEY.private), algorithm="HS256")


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://other"},
        {"iss": None},
        {"sub": "system:serviceaccount:a:other"},
        {"sub": "admin"},
        {"aud": ISSUER},
        {"exp": None},
        {"exp": "tomorrow"},
        {"nbf": 2**40},
        {"kubernetes.io": {"namespace": "a"}},
        {"kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "robot"}}},
        {"kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "robot", "uid": ""}}},
        {"kubernetes.io": {"namespace": "b", "serviceaccount": {"name": "robot", "uid": "u"}}},
        {"kubernetes.io": []},
    ],
)
def test_our_key_signs_nothing_that_is_not_a_token(
    cluster: Cluster, change: dict[str, Any]
) -> None:
    said = {key: v for key, v in (claims(cluster.issue()) | change).items() if v is not None}
    try:
        token = jwt.encode(said, KEY.private, algorithm="ES256")
    except TypeError:
        return
    assert cluster.refuses(token)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text() | st.binary().map(lambda data: base64.urlsafe_b64encode(data).decode()),
)
def test_any_text_is_refused_and_never_a_crash(cluster: Cluster, text: str) -> None:
    for token in (text, f"{text}.{text}.{text}", "e30." + "[" * 5000 + f".{text}", "a" * 100_000):
        with pytest.raises(InvalidToken):
            cluster.tokens.verify(token)


def test_static_tokens_are_for_the_api_alone() -> None:
    authenticator = Authenticator({"token": User("bob")})
    assert authenticator.by_token("token").user.groups == ("system:authenticated",)
    for token, audiences in (("token", ["vault"]), ("other", [ISSUER]), ("", [ISSUER])):
        with pytest.raises(InvalidToken):
            authenticator.by_token(token, audiences)


def test_a_request_for_a_token(cluster: Cluster) -> None:
    made = cluster.request(expirationSeconds=700, audiences=["b"])
    assert (made["kind"], made["apiVersion"]) == ("TokenRequest", "authentication.k8s.io/v1")
    assert made["metadata"]["name"] == "robot"
    assert made["spec"]["expirationSeconds"] == 700
    said = claims(made["status"]["token"])
    assert said["aud"] == ["b"]
    promised = datetime.fromisoformat(made["status"]["expirationTimestamp"]).timestamp()
    assert said["exp"] - 2 <= promised <= said["exp"]
    assert cluster.request()["spec"]["audiences"] == [ISSUER]
    assert cluster.request()["spec"]["expirationSeconds"] == 3600


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": -1}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**32 + 1}, 422, "a duration larger than 2^32 seconds"),
        ({"expirationSeconds": "1h"}, 400, "cannot be handled as a TokenRequest"),
        ({"audiences": "x"}, 400, "cannot be handled as a TokenRequest"),
        ({"boundObjectRef": "x"}, 400, "cannot be handled as a TokenRequest"),
        (
            {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        (
            {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "x"}},
            404,
            'secrets "x" not found',
        ),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "others"}},
            400,
            'cannot bind token for serviceaccount "robot" to pod running with different',
        ),
        (
            {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "own", "uid": "old"}},
            409,
            "the UID in the bound object reference (old) does not match the UID in record",
        ),
    ],
)
def test_requests_that_make_no_sense(
    cluster: Cluster, spec: dict[str, Any], code: int, text: str
) -> None:
    cluster.put("pods", "own", spec={"serviceAccountName": "robot"})
    cluster.put("pods", "others", spec={"serviceAccountName": "other"})
    with pytest.raises(ApiError) as raised:
        cluster.request(**spec)
    assert raised.value.code == code
    assert text in raised.value.message


def test_a_request_is_for_an_account_that_exists_and_for_no_other(cluster: Cluster) -> None:
    place = {"store": cluster.store, "tokens": cluster.tokens, "namespace": "a"}
    with pytest.raises(ApiError, match='serviceaccounts "none" not found'):
        answer({}, **place, name="none")
    with pytest.raises(ApiError, match="must be an object"):
        answer({"metadata": "x"}, **place, name="robot")
    for meta in ({"name": "other"}, {"namespace": "other"}):
        with pytest.raises(ApiError, match="must match the service account"):
            answer({"metadata": meta}, **place, name="robot")


def test_a_secret_of_the_older_kind(cluster: Cluster) -> None:
    def secret(**annotations: str) -> dict[str, Any]:
        prefix = "kubernetes.io/service-account."
        named = {prefix + key: value for key, value in annotations.items()}
        meta = {"name": "s", "namespace": "a", "uid": "s", "annotations": named}
        return {"metadata": meta, "type": SECRET_TYPE}

    def filled(made: dict[str, Any]) -> dict[str, Any]:
        fill_secret(made, store=cluster.store, tokens=cluster.tokens, ca_pem=b"CA")
        return made

    assert "data" not in filled(secret(name="none"))
    assert "data" not in filled(secret(name="robot", uid="another"))
    assert "data" not in filled(secret(name="robot") | {"type": "Opaque"})
    made = filled(secret(name="robot"))
    data = {key: base64.b64decode(value).decode() for key, value in made["data"].items()}
    assert (data["ca.crt"], data["namespace"]) == ("CA", "a")
    assert cluster.refuses(data["token"])  # no Secret holds it yet
    annotations = made["metadata"]["annotations"]
    assert annotations["kubernetes.io/service-account.uid"] == "uid-of-robot"

    cluster.put("secrets", "s", data=made["data"])
    assert cluster.tokens.verify(data["token"]).user.name == ROBOT
    assert filled(made)["data"]["token"] == made["data"]["token"]
    assert cluster.refuses(data["token"], "vault")
    cluster.put("secrets", "s", data={"token": "AAAA"})
    assert cluster.refuses(data["token"])
    cluster.put("secrets", "s", data={"token": "not base64!"})
    assert cluster.refuses(data["token"])
    cluster.put("secrets", "s", data=made["data"])
    cluster.put("serviceaccounts", "robot", uid="another")
    assert cluster.refuses(data["token"])


def test_others_can_check_tokens_with_the_published_key(cluster: Cluster) -> None:
    documents = configuration("https://here:1")
    assert documents["jwks_uri"] == "https://here:1/openid/v1/jwks"
    assert documents["issuer"] == ISSUER
    published = jwt.PyJWKSet.from_dict(key_set(KEY))
    token = cluster.issue()
    key = published[jwt.get_unverified_header(token)["kid"]]
    assert jwt.decode(token, key, algorithms=["ES256"], audience=ISSUER)["sub"] == ROBOT
    assert "d" not in key_set(KEY)["keys"][0]


def test_the_key_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = str(tmp_path / "sa.key")
    made = keys.ensure(path)
    assert keys.ensure(path).key_id == made.key_id
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert "PRIVATE" not in repr(made)
    assert "object" not in repr(made)


def test_a_damaged_key_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    large = rsa.generate_private_key(65537, 2048)
    pem = large.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for content in (b"", b"nonsense", pem):
        path.write_bytes(content)
        with pytest.raises(PkiError, match="remove it and start again"):
            keys.ensure(str(path))
        assert path.read_bytes() == content
