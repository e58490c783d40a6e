"""The kubeconfig format: files read, checked and merged into plain values.

Merging follows client-go: the first file that sets a name, or the current context, wins; a relative
path belongs to the directory of the file that it stands in.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from laneway.api.decoding import without_nulls
from laneway.kube.cluster import EXEC_VERSIONS, Cluster, ExecPlugin, Pem, User, read_file
from laneway.kube.errors import ConfigError

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Context:
    """A cluster, a user and a namespace under one name."""

    cluster: str
    user: str
    namespace: str


@dataclass(slots=True)
class Kubeconfig:
    """One file, or several merged."""

    current_context: str = ""
    clusters: dict[str, Cluster] = field(default_factory=dict)
    users: dict[str, User] = field(default_factory=dict)
    contexts: dict[str, Context] = field(default_factory=dict)


class _Extension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[_Extension] = []


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _Exec(msgspec.Struct, rename="camel"):
    command: str = ""
    args: list[str] = []
    env: list[_Variable] = []
    api_version: str = ""
    interactive_mode: str = "Never"
    provide_cluster_info: bool = False
    install_hint: str = ""


class _User(msgspec.Struct, rename="kebab"):
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: _Exec | None = None
    auth_provider: Any = None
    as_: str = msgspec.field(name="as", default="")


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)


class _NamedUser(msgspec.Struct):
    name: str
    user: _User = msgspec.field(default_factory=_User)


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context = msgspec.field(default_factory=_Context)


class _File(msgspec.Struct):
    current_context: str = msgspec.field(name="current-context", default="")
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


def merge_files(paths: Iterable[str]) -> Kubeconfig:
    """Read files in order of precedence."""
    merged = Kubeconfig()
    for path in paths:
        one = _read(path)
        merged.current_context = merged.current_context or one.current_context
        merged.clusters = one.clusters | merged.clusters
        merged.users = one.users | merged.users
        merged.contexts = one.contexts | merged.contexts
    return merged


def from_text(data: bytes, where: str) -> Kubeconfig:
    """The same from a text that came from elsewhere: it may name no file and run no program."""
    file = _parse(data, where)
    for cluster in file.clusters:
        _stands_alone(where, {"certificate-authority": cluster.cluster.certificate_authority})
    for user in file.users:
        named = {
            "tokenFile": user.user.token_file,
            "client-certificate": user.user.client_certificate,
            "client-key": user.user.client_key,
            "exec": user.user.exec,
        }
        _stands_alone(where, named)
    return _kubeconfig(file, where, "")


def _stands_alone(where: str, named: Mapping[str, object]) -> None:
    for field_name, value in named.items():
        if value:
            raise ConfigError(
                f"{where}: {field_name} names something outside of it, which is not accepted here; "
                "put the data themselves in"
            )


def _read(path: str) -> Kubeconfig:
    return _kubeconfig(_parse(read_file(path), path), path, os.path.dirname(os.path.abspath(path)))


def _kubeconfig(file: _File, path: str, directory: str) -> Kubeconfig:
    clusters = _named(path, "cluster", [(it.name, it.cluster) for it in file.clusters])
    users = _named(path, "user", [(it.name, it.user) for it in file.users])
    contexts = _named(path, "context", [(it.name, it.context) for it in file.contexts])
    return Kubeconfig(
        file.current_context,
        {
            name: _cluster(it, directory, f"{path}: cluster {name!r}")
            for name, it in clusters.items()
        },
        {name: _user(it, directory, f"{path}: user {name!r}") for name, it in users.items()},
        {name: Context(it.cluster, it.user, it.namespace) for name, it in contexts.items()},
    )


def _parse(data: bytes, path: str) -> _File:
    from kubebasics import yaml_text  # noqa: PLC0415 - 2 MB that no pod of a cluster needs

    try:
        tree = yaml_text.read(data)
        return msgspec.convert(without_nulls(tree) or {}, _File)
    except yaml_text.YamlError as error:
        # Its words quote nothing of the file, which may be a token.
        line = f", line {error.line}" if error.line else ""
        raise ConfigError(f"{path}{line}: {error.why}; correct the file") from None
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: not a kubeconfig: {error}; correct the file") from None


def _named(path: str, what: str, pairs: list[tuple[str, V]]) -> dict[str, V]:
    result: dict[str, V] = {}
    for name, value in pairs:
        if name in result:
            raise ConfigError(f"{path}: the {what} {name!r} is defined twice; remove one")
        result[name] = value
    return result


def _cluster(raw: _Cluster, directory: str, where: str) -> Cluster:
    config = next((it.extension for it in raw.extensions if it.name == _EXEC_EXTENSION), None)
    return Cluster(
        raw.server,
        _pem(raw.certificate_authority, raw.certificate_authority_data, directory, where),
        raw.insecure_skip_tls_verify,
        raw.tls_server_name,
        raw.proxy_url,
        config,
    )


def _user(raw: _User, directory: str, where: str) -> User:
    if raw.auth_provider is not None:
        raise ConfigError(f"{where}: auth-provider is not supported; use an exec plugin instead")
    if raw.as_:
        raise ConfigError(f"{where}: impersonation is not supported; use the user's credentials")
    return User(
        raw.token,
        os.path.join(directory, raw.token_file) if raw.token_file else "",
        raw.username,
        raw.password,
        _pem(raw.client_certificate, raw.client_certificate_data, directory, where),
        _pem(raw.client_key, raw.client_key_data, directory, where),
        _exec(raw.exec, directory, where) if raw.exec else None,
    )


def _exec(raw: _Exec, directory: str, where: str) -> ExecPlugin:
    if raw.api_version not in EXEC_VERSIONS:
        known = " or ".join(EXEC_VERSIONS)
        raise ConfigError(f"{where}: exec has an unknown apiVersion; it must be {known}")
    if raw.interactive_mode == "Always":
        raise ConfigError(
            f"{where}: the exec plugin needs a terminal (interactiveMode Always); use a plugin "
            "that works without one"
        )
    in_path = os.sep not in raw.command
    return ExecPlugin(
        raw.command if in_path else os.path.join(directory, raw.command),
        tuple(raw.args),
        tuple((it.name, it.value) for it in raw.env),
        raw.api_version,
        raw.provide_cluster_info,
        raw.install_hint,
    )


def _pem(path: str, data: str, directory: str, where: str) -> Pem | None:
    if data:
        try:
            return Pem(data=base64.b64decode("".join(data.split()), validate=True))
        except ValueError:
            raise ConfigError(
                f"{where}: certificate or key data is not base64; correct the file"
            ) from None
    return Pem(path=os.path.join(directory, path)) if path else None
