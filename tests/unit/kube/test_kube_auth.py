"""Identities are kept as long as they are good and no longer."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from laneway.kube.auth import FILE_SECONDS, Credentials, Fetched, Identity, credentials_for
from laneway.kube.cluster import Cluster, ClusterConfig, ExecPlugin, Pem, User
from laneway.kube.errors import CredentialsError, UnauthorizedError
from laneway.kube.execplugin import run_plugin

V1 = "client.authentication.k8s.io/v1"
CLUSTER = Cluster("https://api.test:6443", Pem(data=b"the CA"), tls_server_name="name.test")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def plugin(path: Path, code: str, **more: Any) -> ExecPlugin:
    """An exec plugin whose body is Python; each run adds a line to the file `runs` next to it."""
    program = path / "plugin"
    runs = f"import json, os, sys; open({str(path / 'runs')!r}, 'a').write('x\\n')\n"
    program.write_text(f"#!{sys.executable} -S\n{runs}{code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin(str(program), **more)


def runs(path: Path) -> int:
    file = path / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0


def answer(**status: str) -> str:
    text = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status})
    return f"print({text!r})"


@pytest.mark.parametrize(
    ("user", "header"),
    [
        (User(), ""),
        (User(token="t"), "Bearer t"),
        (
            User(username="u", password="p:ä"),
            "Basic " + base64.b64encode("u:p:ä".encode()).decode(),
        ),
    ],
)
async def test_headers(user: User, header: str) -> None:
    identity = await credentials_for(ClusterConfig(CLUSTER, user)).identity()

    assert identity.authorization == header


async def test_a_token_file_is_read_again_each_minute(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = credentials_for(ClusterConfig(CLUSTER, User(token_file=str(file))), clock)
    assert (await credentials.identity()).authorization == "Bearer one"
    file.write_text("two\n")

    clock.now += FILE_SECONDS - 1
    assert (await credentials.identity()).authorization == "Bearer one"
    clock.now += 1
    assert (await credentials.identity()).authorization == "Bearer two"


@pytest.mark.parametrize("content", [b"", b" \n", b"a\r\nInjected: yes", b"\xff\xfe"])
async def test_a_token_file_without_a_token(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)

    with pytest.raises(CredentialsError, match="holds no token"):
        await credentials_for(ClusterConfig(CLUSTER, User(token_file=str(file)))).identity()


async def test_a_token_that_was_replaced_is_read_on_401(script, things, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    script.replies += [script.body(200, script.thing("a", 1))]
    script.replies += [
        script.body(401, script.failure(401)),
        script.body(200, script.thing("a", 1)),
    ]

    async with script.client(User(token_file=str(file))) as client:
        await client.get(things, "a")
        file.write_text("new")
        await client.get(things, "a")

    sent = [one.headers["authorization"] for one in script.seen]
    assert sent == ["Bearer old", "Bearer old", "Bearer new"]


async def test_a_watch_renews_its_token_too(script, until, tmp_path: Path) -> None:
    """The informer must not fall back to an error on every rotation."""
    file = tmp_path / "token"
    file.write_text("old")
    script.config = ClusterConfig(script.config.cluster, User(token_file=str(file)))

    async def refuse(writer: asyncio.StreamWriter) -> None:
        file.write_text("new")
        await script.body(401, script.failure(401))(writer)

    script.replies.append(script.items(1))
    script.watches.append(refuse)

    async with script.informer() as informer:
        await until(lambda: len(script.watched) == 2)

    assert script.watched[1].headers["authorization"] == "Bearer new"
    assert informer.counts.failures == 0


async def test_the_same_token_is_not_sent_twice_to_a_server_that_refuses_it(plain, things) -> None:
    plain.replies.append(plain.body(401, plain.failure(401, "Unauthorized")))

    async with plain.client() as client:
        with pytest.raises(UnauthorizedError):
            await client.get(things, "a")

    assert len(plain.seen) == 1


async def test_a_plugin_runs_once_until_what_it_issued_expires(tmp_path: Path, clock) -> None:
    clock.now = 1_800_000_000.0  # 2027-01-15T08:00:00Z
    code = answer(token="t", expirationTimestamp="2027-01-15T08:10:00Z")
    user = User(exec=plugin(tmp_path, code))
    credentials = credentials_for(ClusterConfig(CLUSTER, user), clock)

    first, *_ = await asyncio.gather(*(credentials.identity() for _ in range(5)))
    clock.now += 599
    await credentials.identity()
    assert runs(tmp_path) == 1
    clock.now += 1
    await credentials.identity()

    assert first.authorization == "Bearer t"
    assert runs(tmp_path) == 2


async def test_a_plugin_runs_again_on_401(plain, things, tmp_path: Path) -> None:
    code = f"""
n = len(open({str(tmp_path / "runs")!r}).readlines())
status = {{"token": f"t{{n}}"}}
print(json.dumps({{"apiVersion": "{V1}", "kind": "ExecCredential", "status": status}}))
"""
    user = User(exec=plugin(tmp_path, code))
    plain.replies += [plain.body(401, plain.failure(401)), plain.body(200, plain.thing("a", 1))]

    async with plain.client(user) as client:
        await client.get(things, "a")

    assert [one.headers["authorization"] for one in plain.seen] == ["Bearer t1", "Bearer t2"]


async def test_a_refusal_of_an_identity_that_was_replaced_meanwhile_changes_nothing() -> None:
    issued = iter([Identity("one"), Identity("two"), Identity("three")])

    async def fetch() -> Fetched:
        return Fetched(next(issued))

    credentials = Credentials(fetch)
    first = await credentials.identity()
    credentials.reject(first)
    second = await credentials.identity()
    credentials.reject(first)

    assert await credentials.identity() is second


async def test_a_plugin_may_issue_a_certificate(mutual, things, authority, tmp_path: Path) -> None:
    certificate, key = authority.client
    code = answer(clientCertificateData=certificate.decode(), clientKeyData=key.decode())
    mutual.replies.append(mutual.body(200, mutual.thing("a", 1)))

    async with mutual.client(User(exec=plugin(tmp_path, code))) as client:
        await client.get(things, "a")

    assert "authorization" not in mutual.seen[0].headers


async def test_what_a_plugin_gets(tmp_path: Path) -> None:
    code = (
        f"open({str(tmp_path / 'told')!r}, 'w').write(json.dumps("
        "[sys.argv[1:], os.environ['MODE'], os.environ['KUBERNETES_EXEC_INFO'], sys.stdin.read()]"
        "))\n" + answer(token="t")
    )
    program = plugin(
        tmp_path, code, args=("--x", "a b"), env=(("MODE", "m"),), provide_cluster_info=True
    )

    await run_plugin(program, CLUSTER)

    args, mode, info, stdin = json.loads((tmp_path / "told").read_text())
    reported = json.loads(info)
    assert (args, mode, stdin) == (["--x", "a b"], "m", "")
    assert (reported["apiVersion"], reported["kind"]) == (V1, "ExecCredential")
    assert reported["spec"] == {
        "interactive": False,
        "cluster": {
            "server": "https://api.test:6443",
            "tls-server-name": "name.test",
            "certificate-authority-data": base64.b64encode(b"the CA").decode(),
        },
    }


async def test_a_plugin_gets_the_cluster_only_on_request(tmp_path: Path) -> None:
    code = (
        f"open({str(tmp_path / 'told')!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
        + answer(token="t")
    )

    await run_plugin(plugin(tmp_path, code), CLUSTER)

    assert "cluster" not in json.loads((tmp_path / "told").read_text())["spec"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit('please log in\\nfirst')", "failed with status 1: please log in first"),
        ("sys.exit(3)", "failed with status 3: no output"),
        ("print('secret')", "no ExecCredential"),
        ("print('{}')", "no ExecCredential"),
        ("", "no ExecCredential"),
        (answer(), "neither a token nor a certificate"),
        (answer(clientCertificateData="x"), "neither a token nor a certificate"),
        (answer(token="secret", expirationTimestamp="soon"), "no ExecCredential"),
        (answer(token="secret").replace("/v1", "/v1beta1"), "another version"),
        (answer(token="secret").replace("ExecCredential", "Secret"), "another version"),
    ],
)
async def test_plugins_that_fail_are_explained_without_secrets(
    tmp_path: Path, code: str, said: str
) -> None:
    with pytest.raises(CredentialsError) as caught:
        await run_plugin(plugin(tmp_path, code), CLUSTER)

    text = str(caught.value)
    assert said in text
    assert "exec plugin plugin " in text
    assert "secret" not in text
    assert "\n" not in text


async def test_a_plugin_that_is_missing_says_how_to_get_it() -> None:
    missing = ExecPlugin("/no/such/plugin", install_hint="run:\n  get plugin")

    with pytest.raises(CredentialsError, match="No such file or directory; run: get plugin"):
        await run_plugin(missing, CLUSTER)


async def test_a_plugin_that_never_ends_is_ended(tmp_path: Path) -> None:
    code = "import time; time.sleep(600)"

    with pytest.raises(CredentialsError, match="no answer within"):
        await run_plugin(plugin(tmp_path, code), CLUSTER, time_limit=0.5)


def test_no_secret_is_in_the_text_of_anything() -> None:
    user = User(
        token="hidden",
        password="hidden",
        key=Pem(data=b"hidden"),
        exec=ExecPlugin("x", args=("hidden",), env=(("A", "hidden"),)),
    )
    config = ClusterConfig(Cluster("https://a", proxy_url="http://u:hidden@p"), user)

    assert "hidden" not in repr(config)
    assert "hidden" not in repr(Fetched(Identity("hidden", b"hidden", b"hidden")))


async def test_a_server_that_refuses_every_identity_is_asked_twice(plain, things) -> None:
    count = 0

    async def fetch() -> Fetched:
        nonlocal count
        count += 1
        return Fetched(Identity(f"Bearer {count}"))

    plain.replies += [plain.body(401, plain.failure(401))] * 5

    async with plain.client(credentials=Credentials(fetch)) as client:
        with pytest.raises(UnauthorizedError):
            await client.get(things, "a")

    assert len(plain.seen) == 2
