"""Kubeconfigs as people have them, and as they should not be."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laneway.kube.config import SECRET_LIMIT, from_secret, load
from laneway.kube.errors import ConfigError

SECRET = "s3cr3t"


def write(path: Path, **parts: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config"} | parts))
    return str(path)


def simple(**changes: Any) -> dict[str, Any]:
    """A complete kubeconfig; `cluster`, `user` and `context` add to its only entries."""
    return {
        "current-context": "main",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://a:6443"} | changes.get("cluster", {})}
        ],
        "users": [{"name": "u", "user": changes.get("user", {"token": SECRET})}],
        "contexts": [
            {"name": "main", "context": {"cluster": "c", "user": "u"} | changes.get("context", {})}
        ],
    }


def exec_user(**more: Any) -> dict[str, Any]:
    return {
        "exec": {"command": "get-token", "apiVersion": "client.authentication.k8s.io/v1"} | more
    }


def test_an_explicit_file(tmp_path: Path) -> None:
    path = write(tmp_path / "config", **simple(context={"namespace": "team"}))

    config = load(path, env={"KUBECONFIG": "/elsewhere"})

    assert config.cluster.server == "https://a:6443"
    assert config.user.token == SECRET
    assert config.namespace == "team"


def test_relative_paths_belong_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "ca.crt").write_bytes(b"the CA")
    user = {
        "tokenFile": "token",
        "client-certificate": "tls.crt",
        "client-key": "/abs/tls.key",
    }
    path = write(
        tmp_path / "d" / "config", **simple(cluster={"certificate-authority": "ca.crt"}, user=user)
    )

    config = load(path, env={})

    assert config.cluster.ca is not None
    assert config.cluster.ca.read() == b"the CA"
    assert config.user.token_file == str(tmp_path / "d" / "token")
    assert config.user.certificate is not None
    assert config.user.certificate.path == str(tmp_path / "d" / "tls.crt")
    assert config.user.key is not None
    assert config.user.key.path == "/abs/tls.key"


def test_inline_data_goes_before_files(tmp_path: Path) -> None:
    data = base64.b64encode(b"inline").decode()
    cluster = {"certificate-authority": "missing", "certificate-authority-data": data}

    config = load(write(tmp_path / "config", **simple(cluster=cluster)), env={})

    assert config.cluster.ca is not None
    assert config.cluster.ca.read() == b"inline"


def test_everything_else_that_a_cluster_may_say(tmp_path: Path) -> None:
    cluster = {
        "insecure-skip-tls-verify": True,
        "tls-server-name": "api.test",
        "proxy-url": "http://proxy:3128",
        "extensions": [
            {"name": "other", "extension": 1},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
        ],
    }

    config = load(write(tmp_path / "config", **simple(cluster=cluster)), env={})

    assert config.cluster.insecure
    assert config.cluster.tls_server_name == "api.test"
    assert config.cluster.proxy_url == "http://proxy:3128"
    assert config.cluster.exec_config == {"audience": "x"}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_exec_plugins(tmp_path: Path, version: str) -> None:
    user = exec_user(
        apiVersion=f"client.authentication.k8s.io/{version}",
        args=["a", "b"],
        env=[{"name": "X", "value": "1"}],
        interactiveMode="IfAvailable",
        provideClusterInfo=True,
        installHint="brew install",
    )

    plugin = load(write(tmp_path / "config", **simple(user=user)), env={}).user.exec

    assert plugin is not None
    assert plugin.command == "get-token"
    assert plugin.args == ("a", "b")
    assert plugin.env == (("X", "1"),)
    assert plugin.provide_cluster_info
    assert plugin.install_hint == "brew install"


@pytest.mark.parametrize(
    ("command", "resolved"), [("bin/x", "{dir}/bin/x"), ("x", "x"), ("/usr/bin/x", "/usr/bin/x")]
)
def test_a_plugin_with_a_path_belongs_to_the_file(tmp_path: Path, command, resolved) -> None:
    path = write(tmp_path / "config", **simple(user=exec_user(command=command)))

    plugin = load(path, env={}).user.exec

    assert plugin is not None
    assert plugin.command == resolved.format(dir=tmp_path)


def test_nulls_count_as_absent(tmp_path: Path) -> None:
    user = exec_user(args=None, env=None)
    user["token"] = None
    parts = simple(user=user, context={"namespace": None}) | {"preferences": None}

    config = load(write(tmp_path / "config", **parts), env={})

    assert config.user.exec is not None
    assert config.user.exec.args == ()
    assert config.namespace == "default"


def test_files_are_merged_and_the_first_to_say_something_wins(tmp_path: Path) -> None:
    one = write(
        tmp_path / "1" / "config",
        **{"current-context": "here"},
        contexts=[{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        users=[{"name": "u", "user": {"tokenFile": "token"}}],
    )
    parts = simple()
    parts["contexts"].append({"name": "there", "context": {"cluster": "c"}})
    two = write(tmp_path / "2" / "config", **parts)
    env = {"KUBECONFIG": f"{one}::{tmp_path / 'missing'}:{two}"}

    config = load(env=env)
    there = load(context="there", env=env)

    assert config.cluster.server == "https://a:6443"
    assert config.user.token_file == str(tmp_path / "1" / "token")
    assert config.user.token == ""
    assert there.user.token_file == ""


def test_the_home_directory_is_looked_in(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", **simple())

    assert load(env={"HOME": str(tmp_path)}).user.token == SECRET


@pytest.mark.parametrize(
    ("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_in_a_pod_the_service_account_is_used(tmp_path: Path, host: str, url: str) -> None:
    for name in ("token", "ca.crt", "namespace"):
        (tmp_path / name).write_text(f"the-{name}\n")
    env = {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}

    config = load(env=env, service_account=str(tmp_path))

    assert config.cluster.server == url
    assert config.namespace == "the-namespace"
    assert config.user.token_file == str(tmp_path / "token")
    assert config.cluster.ca is not None
    assert config.cluster.ca.path == str(tmp_path / "ca.crt")


def test_a_pod_without_a_service_account(tmp_path: Path) -> None:
    env = {"HOME": "/nowhere", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}

    with pytest.raises(ConfigError, match="cannot be read"):
        load(env=env, service_account=str(tmp_path))


def test_nothing_to_be_found() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/\.kube/config not found.*KUBECONFIG"):
        load(env={"HOME": "/nowhere"})


def without(key: str) -> dict[str, Any]:
    parts = simple()
    del parts[key]
    return parts


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (without("current-context"), "no current context is set"),
        (simple() | {"current-context": "x"}, r"no context 'x'.*main"),
        (without("clusters"), "names the cluster 'c'"),
        (without("users"), "names the user 'u'"),
        (simple() | {"clusters": {}}, "not a kubeconfig"),
        (simple() | {"clusters": [{"cluster": {}}]}, "missing required field `name`"),
        (simple() | {"users": simple()["users"] + simple()["users"]}, "'u' is defined twice"),
        (simple(cluster={"server": ""}), "server is not an http or https URL"),
        (simple(cluster={"server": "a:6443"}), "server is not an http or https URL"),
        (simple(cluster={"server": "https://[::1"}), "server is not an http or https URL"),
        (simple(cluster={"server": "https://a:x"}), "server is not an http or https URL"),
        (simple(cluster={"server": "https://a b"}), "server is not an http or https URL"),
        (simple(cluster={"server": f"https://u:{SECRET}@a"}), "server holds credentials"),
        (simple(cluster={"server": 5}), "Expected `str`, got `int`"),
        (simple(cluster={"certificate-authority-data": "&" + SECRET}), "not base64"),
        (simple(cluster={"certificate-authority": "nope"}), "nope: cannot be read"),
        (
            simple(
                cluster={"certificate-authority-data": "YQ==", "insecure-skip-tls-verify": True}
            ),
            "remove one",
        ),
        (simple(cluster={"proxy-url": f"socks5://u:{SECRET}@p"}), "proxy-url is not"),
        (simple(user={"token": 123}), "Expected `str`, got `int`"),
        (simple(user={"client-certificate": "x"}), "needs its key"),
        (simple(user={"client-key-data": "eA=="}), "needs its key"),
        (simple(user={"client-key-data": SECRET + "!"}), "not base64"),
        (simple(user={"token": SECRET, "username": "u"}), "both a token and a username"),
        (simple(user={"auth-provider": {"name": "gcp"}}), "auth-provider is not supported"),
        (simple(user={"as": "admin", "token": SECRET}), "impersonation is not supported"),
        (simple(user=exec_user(command="")), "no command"),
        (simple(user=exec_user(apiVersion="v1alpha1")), "unknown apiVersion"),
        (simple(user=exec_user(interactiveMode="Always")), "needs a terminal"),
        (simple(user=exec_user(args="--x")), "Expected `array`"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_the_file(tmp_path: Path, parts, said) -> None:
    path = write(tmp_path / "config", **parts)

    with pytest.raises(ConfigError, match=said) as caught:
        load(path, env={})

    text = str(caught.value)
    assert "\n" not in text
    assert str(tmp_path) in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no current context"),
        (b"just text", "not a kubeconfig"),
        (b"- a\n- b\n", "not a kubeconfig"),
        (b"users:\n- token: s3cr3t: oops\n", "line 2: not valid YAML"),
        (b"users: [s3cr3t", "line 1: not valid YAML"),
        (b"a: !!python/object/apply:os.system [s3cr3t]", "line 1: tags other than"),
        (b"\x80\x81s3cr3t", "not a YAML text file"),
        (b"\x00\x01\x02", "not a YAML text file"),
        (b"[" * 5000, "line 1: nested more than 200 levels deep"),
        (b"a: &a [x]\nb: *a\n", "aliases are not accepted"),
        (b"? [a]\n: b\n", "line 1: a key is a map or a list"),
    ],
)
def test_files_that_are_no_kubeconfig(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=said) as caught:
        load(str(path), env={})

    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    assert SECRET not in text


@pytest.mark.parametrize(("name", "said"), [(".", "Is a directory"), ("no", "No such file")])
def test_files_that_cannot_be_read(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(str(tmp_path / name), env={})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(content=st.binary(max_size=60) | st.text(alphabet="{}[]:-&*!|>'\"? \nab1", max_size=60))
def test_no_content_whatever_is_a_crash(tmp_path: Path, content: bytes | str) -> None:
    path = tmp_path / "config"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())

    with pytest.raises(ConfigError):
        load(str(path), env={})


# ------------------------------------------------------------------------------------ in a Secret


def test_a_secret_tells_how_a_cluster_is_reached() -> None:
    found = from_secret(yaml.safe_dump(simple()).encode(), "Secret team/a")
    assert (found.cluster.server, found.user.token) == ("https://a:6443", SECRET)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"user": {"tokenFile": "/var/run/secrets/token"}}, "tokenFile"),
        ({"user": {"client-key": "/etc/key", "client-certificate-data": "QQ=="}}, "client-key"),
        ({"user": {"client-certificate": "/etc/crt"}}, "client-certificate"),
        ({"user": exec_user()}, "exec"),
        ({"cluster": {"certificate-authority": "/etc/ca"}}, "certificate-authority"),
    ],
)
def test_a_secret_may_name_nothing_of_ours(parts: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^Secret team/a: {said} names something outside"):
        from_secret(yaml.safe_dump(simple(**parts)).encode(), "Secret team/a")


def test_a_secret_that_would_keep_us_busy_is_not_read() -> None:
    text = yaml.safe_dump(simple()).encode()
    assert from_secret(text.ljust(SECRET_LIMIT), "Secret team/a")
    with pytest.raises(ConfigError, match="keep only the context"):
        from_secret(text.ljust(SECRET_LIMIT + 1), "Secret team/a")
