"""Credentials from a Secret, read by its name.

No Secret is watched or listed, because the right to do that would be the right to read all of
them; so a change is found by looking again. The values are in no message and no log.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

import msgspec

from laneway.api import ObjectMeta
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, KubeError, NotFoundError
from laneway.kube.resource import Resource
from laneway.vsphere.fleet.sources import Source
from laneway.vsphere.port import Credentials


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A Secret. Never printed."""

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return "Secret(…)"


SECRETS = Resource("", "v1", "secrets", True, Secret)
REMEDY = "add its namespace to manager.vsphere.secretNamespaces of the chart"
LIMIT = 1024
"""Characters of a user or a password. vCenter takes fewer; a Secret may have a million, which
Laneway would send."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class UnusableSecretError(Exception):
    """There are no credentials; says where they were looked for and what is missing."""


async def credentials_of(client: Client, source: Source) -> Credentials:
    """How to log in to a vCenter now. Raises UnusableSecretError, KubeError."""
    where = f"Secret {source.secret}"
    try:
        secret = await client.get(SECRETS, source.secret.name, source.secret.namespace)
    except NotFoundError:
        raise UnusableSecretError(
            f"{where} does not exist; create it with the keys username and password"
        ) from None
    except ForbiddenError as error:
        raise UnusableSecretError(f"{where} cannot be read: {error}; {REMEDY}") from None
    except KubeError as error:
        raise KubeError(f"{where} cannot be read: {error}") from None
    user, password = (_text(secret, key, where) for key in ("username", "password"))
    return Credentials(user, password, source.thumbprint, source.ca)


def _text(secret: Secret, key: str, where: str) -> str:
    try:
        text = base64.b64decode(secret.data.get(key, ""), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise UnusableSecretError(f"{where}: the value of {key} is not text") from None
    if not text:
        raise UnusableSecretError(f"{where} has no {key}; its keys must be username and password")
    if len(text) > LIMIT:
        raise UnusableSecretError(f"{where}: {key} has more than {LIMIT} characters; correct it")
    if _CONTROL.search(text):
        raise UnusableSecretError(
            f"{where}: {key} has a control character, such as a line break at its end, which "
            "vCenter would refuse; create it without (printf, not echo)"
        )
    return text
