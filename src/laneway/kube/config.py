"""Where the API server is and who we are, found by the rules that kubectl users know.

An explicit file, else the files of $KUBECONFIG merged, else ~/.kube/config, else the service
account of the pod. What is found is checked here, once, so that whatever is wrong ends in one
`ConfigError` that names the file, the fault and the remedy, and never shows a secret.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from laneway.kube.cluster import Cluster, ClusterConfig, Pem, User, read_file
from laneway.kube.errors import ConfigError
from laneway.kube.kubeconfig import Kubeconfig, from_text, merge_files

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
SECRET_LIMIT = 64 << 10
"""Bytes of a configuration in a Secret. One of a cluster has less than ten thousand, and a Secret,
which may have a million, would take half a minute to read."""


def load(
    path: str | None = None,
    context: str | None = None,
    *,
    env: Mapping[str, str] = os.environ,
    service_account: str = SERVICE_ACCOUNT,
) -> ClusterConfig:
    """Find and check the configuration; ConfigError says what is wrong and what to do."""
    candidates = [path] if path else _candidates(env)
    if files := [name for name in candidates if path or os.path.exists(name)]:
        return _from_files(files, context)
    if env.get("KUBERNETES_SERVICE_HOST"):
        return _from_service_account(env, service_account)
    raise ConfigError(
        f"no cluster is configured: {' and '.join(candidates)} not found and this is not a pod; "
        "name a kubeconfig file, or set KUBECONFIG"
    )


def contexts(path: str | None = None, *, env: Mapping[str, str] = os.environ) -> list[str]:
    """The contexts to choose from. Raises ConfigError."""
    files = [path] if path else [name for name in _candidates(env) if os.path.exists(name)]
    return sorted(merge_files(files).contexts)


def _candidates(env: Mapping[str, str]) -> list[str]:
    """The files that are read unless one is named."""
    listed = [name for name in env.get("KUBECONFIG", "").split(os.pathsep) if name]
    return listed or [os.path.join(env.get("HOME", "/"), ".kube", "config")]


def from_secret(data: bytes, source: str) -> ClusterConfig:
    """The configuration in a Secret, of its current context. Raises ConfigError.

    Its author may have fewer rights than Laneway: so it may name no file of ours, run no program
    and take no time.
    """
    if len(data) > SECRET_LIMIT:
        raise ConfigError(
            f"{source}: has {len(data)} bytes, and may have {SECRET_LIMIT}; keep only the context "
            "that is used in it"
        )
    return _chosen(from_text(data, source), source, None)


def _from_files(files: list[str], context: str | None) -> ClusterConfig:
    return _chosen(merge_files(files), ", ".join(files), context)


def _chosen(merged: Kubeconfig, source: str, context: str | None) -> ClusterConfig:
    wanted = context or merged.current_context
    known = ", ".join(sorted(merged.contexts)) or "none"
    if not wanted:
        raise ConfigError(f"{source}: no current context is set. Contexts: {known}")
    chosen = merged.contexts.get(wanted)
    if chosen is None:
        raise ConfigError(f"{source}: there is no context {wanted!r}. Contexts: {known}")
    cluster = merged.clusters.get(chosen.cluster)
    if cluster is None:
        raise ConfigError(
            f"{source}: context {wanted!r} names the cluster {chosen.cluster!r}, which is not "
            "defined; add it or choose another context"
        )
    user = merged.users.get(chosen.user) if chosen.user else User()
    if user is None:
        raise ConfigError(
            f"{source}: context {wanted!r} names the user {chosen.user!r}, who is not defined; "
            "add the user or choose another context"
        )
    _check_cluster(cluster, f"{source}: cluster {chosen.cluster!r}")
    _check_user(user, f"{source}: user {chosen.user!r}")
    return ClusterConfig(cluster, user, chosen.namespace or "default", f"{source} ({wanted})")


def _from_service_account(env: Mapping[str, str], directory: str) -> ClusterConfig:
    host = env["KUBERNETES_SERVICE_HOST"]
    host = f"[{host}]" if ":" in host else host
    port = env.get("KUBERNETES_SERVICE_PORT") or "443"
    token_file = os.path.join(directory, "token")
    namespace = read_file(os.path.join(directory, "namespace")).decode("utf-8", "replace").strip()
    if not read_file(token_file).strip():
        raise ConfigError(f"{token_file}: is empty; give the pod a service account token")
    cluster = Cluster(f"https://{host}:{port}", Pem(path=os.path.join(directory, "ca.crt")))
    _check_cluster(cluster, "service account")
    user = User(token_file=token_file)
    return ClusterConfig(cluster, user, namespace or "default", "service account")


def _check_cluster(cluster: Cluster, where: str) -> None:
    if not _is_url(cluster.server, {"http", "https"}):
        raise ConfigError(
            f"{where}: server is not an http or https URL; write it as https://HOST:PORT"
        )
    if "@" in urlsplit(cluster.server).netloc:
        raise ConfigError(f"{where}: server holds credentials; move them to the user")
    if cluster.proxy_url and not _is_url(cluster.proxy_url, {"http", "https"}):
        raise ConfigError(
            f"{where}: proxy-url is not an http or https URL; no other proxies are supported"
        )
    if cluster.insecure and cluster.ca:
        raise ConfigError(
            f"{where}: has both a certificate authority and insecure-skip-tls-verify; remove one"
        )
    if cluster.ca:
        cluster.ca.read()


def _check_user(user: User, where: str) -> None:
    if bool(user.certificate) != bool(user.key):
        raise ConfigError(
            f"{where}: a client certificate needs its key and the key its certificate; give both"
        )
    if user.username and (user.token or user.token_file):
        raise ConfigError(f"{where}: has both a token and a username; remove one")
    if user.exec and not user.exec.command:
        raise ConfigError(f"{where}: exec has no command; name the program to run")


def _is_url(text: str, schemes: set[str]) -> bool:
    try:
        parts = urlsplit(text)
        return (
            parts.scheme in schemes
            and bool(parts.hostname)
            and parts.port != 0
            and text.isprintable()
            and " " not in text
        )
    except ValueError:
        return False
