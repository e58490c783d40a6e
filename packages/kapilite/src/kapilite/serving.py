"""An API server as its administrator meets it: TLS, a token and a kubeconfig, in one folder.

Everything of it lies in the folder, so that the next server there continues: the database, the
certificate authority, the administrator's token, the key of service accounts. A folder that holds
anything else and no database is never written to. In memory only the objects can be kept, and the
folder then holds but credentials.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from kapilite.authn import Authenticator, User, keys
from kapilite.authn.users import MASTERS
from kapilite.credentials import kubeconfig
from kapilite.credentials.pki import Pki, ensure
from kapilite.server import ApiServer
from kapilite.storage.database import MEMORY
from kubebasics.files import FolderError, naming_failures, write_atomically

LOOPBACK = "127.0.0.1"
ADMINISTRATOR = User("admin", (MASTERS,))

_ANY = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - how clients here reach all addresses
_TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")  # what so many bytes become


@dataclass(frozen=True)
class Folder:
    """Where everything of one server lies."""

    path: str

    @property
    def database(self) -> str:
        return os.path.join(self.path, "state.db")

    @property
    def kubeconfig(self) -> str:
        return os.path.join(self.path, "kubeconfig")

    @property
    def pki(self) -> str:
        return os.path.join(self.path, "pki")

    @property
    def ca(self) -> str:
        """The certificate by which clients know the server."""
        return os.path.join(self.path, "pki", "ca.crt")

    @property
    def token(self) -> str:
        """The administrator's."""
        return os.path.join(self.path, "token")

    @property
    def signing_key(self) -> str:
        """The key by which the tokens of service accounts are signed."""
        return os.path.join(self.path, "pki", "service-accounts.key")


@dataclass(frozen=True)
class Credentials:
    """By what a server is known, and knows others. Servers may share them."""

    pki: Pki
    token: str
    """The administrator's."""
    signing_key: keys.SigningKey


@dataclass(frozen=True)
class Serving:
    """A server that listens."""

    server: ApiServer
    url: str
    credentials: Credentials


def make(path: str) -> Folder:
    """Make a folder, or take over that of an earlier server. Raises FolderError."""
    folder = Folder(os.path.abspath(path))
    with naming_failures(folder.path):
        os.makedirs(folder.path, mode=0o700, exist_ok=True)
        known = {os.path.basename(one) for one in (folder.kubeconfig, folder.pki, folder.token)}
        names = set(os.listdir(folder.path))
        if not os.path.exists(folder.database) and names - known:
            raise FolderError(
                f"{folder.path} is not empty and was not made by kapilite; "
                "choose an empty or new directory with --data-dir"
            )
    return folder


def credentials(folder: Folder, *names: str) -> Credentials:
    """Those in a folder, made where they are not. Raises FolderError and PkiError.

    `names` are host names and addresses under which clients reach the server, besides the usual.
    """
    with naming_failures(folder.path):
        pki = ensure(folder.pki, [socket.gethostname(), *names])
        return Credentials(pki, _token(folder), keys.ensure(folder.signing_key))


@contextlib.asynccontextmanager
async def serving(
    folder: Folder,
    known: Credentials,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    users: Mapping[str, User] | None = None,
    name: str = "kapilite",
    contents: bytes | None = None,
) -> AsyncIterator[Serving]:
    """A server until the block ends. Raises FolderError, StoreError and ListenError.

    `users` are those besides the administrator, by their tokens; `name` is that of the kubeconfig's
    context. With `contents`, which may be empty, objects are kept in memory and begin so.
    """
    server = ApiServer(
        folder.database if contents is None else MEMORY,
        contents=contents or b"",
        host=host,
        port=port,
        tls=known.pki.ssl_context(),
        authenticator=Authenticator({known.token: ADMINISTRATOR, **(users or {})}),
        signing_key=known.signing_key,
        ca_pem=known.pki.ca_pem,
    )
    await server.start()
    try:
        url = server.url.replace(f"//{_shown(host)}:", f"//{_shown(_ANY.get(host, host))}:")
        with naming_failures(folder.path):
            kubeconfig.write(
                folder.kubeconfig,
                server=url,
                ca_pem=known.pki.ca_pem,
                token=known.token,
                name=name,
            )
        yield Serving(server, url, known)
    finally:
        await server.stop()


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _token(folder: Folder) -> str:
    """The administrator's token, made once. A part of one would be a weak credential."""
    try:
        with open(folder.token, encoding="ascii", errors="replace") as file:
            token = file.read().strip()
    except FileNotFoundError:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        write_atomically(folder.token, f"{token}\n".encode())
    if not _TOKEN.fullmatch(token):
        raise FolderError(
            f"{folder.token} is damaged: remove it and start again; a new token is then made, "
            "and clients need the new kubeconfig"
        )
    return token
