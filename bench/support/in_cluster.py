"""How a pod reaches the API server: by a service account, without any kubeconfig."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from laneway.kube.cluster import ClusterConfig
from laneway.kube.config import load

_FOLDER = "serviceaccount"


def write(kubeconfig: str, server: str, ca_pem: bytes, token: str) -> None:
    """Lay it down next to a kubeconfig."""
    folder = os.path.join(os.path.dirname(kubeconfig), _FOLDER)
    os.makedirs(folder, exist_ok=True)  # the server of a bench may be started again
    content = {
        "ca.crt": ca_pem,
        "token": token.encode(),
        "namespace": b"default",
        "server": server.encode(),
    }
    for name, data in content.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def found(kubeconfig: str) -> ClusterConfig:
    """What a pod finds of it."""
    folder = os.path.join(os.path.dirname(kubeconfig), _FOLDER)
    with open(os.path.join(folder, "server"), encoding="ascii") as file:
        server = urlsplit(file.read())
    env = {
        "HOME": folder,
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
    }
    return load(env=env, service_account=folder)
