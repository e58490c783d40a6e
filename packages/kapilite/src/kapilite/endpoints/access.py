"""Who may do what, put together: the part of it that reading and writing objects needs.

The gate in front of every request is `authorization.middleware`. What is left is asked here: what
a written object would give away, the questions that clients post about rights and identities, and
the tokens of service accounts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.authn import requests
from kapilite.authorization import Attributes, escalation, forbidden, reviews
from kapilite.endpoints import answers

if TYPE_CHECKING:
    from aiohttp import web

    from kapilite.authn import Authenticator, ServiceAccountTokens, User
    from kapilite.authorization import Authorizer
    from kapilite.encodings.negotiation import Form
    from kapilite.kinds import Kind
    from kapilite.storage.store import Store
    from kapilite.writes.objects import Object, Options, Subject


class Access:
    """The rights, identities and tokens of one server."""

    def __init__(
        self,
        store: Store,
        authenticator: Authenticator,
        authorizer: Authorizer,
        tokens: ServiceAccountTokens,
        ca_pem: bytes,
    ) -> None:
        self._store = store
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._tokens = tokens
        self._ca_pem = ca_pem

    def guard(self, kind: Kind, obj: Object, old: Object | None, user: User) -> None:
        """Raise a 403 where the object would give more than its writer holds."""
        escalation.check(
            self._authorizer,
            user,
            kind,
            obj,
            old,
            namespace=obj["metadata"].get("namespace", ""),
            name=obj["metadata"].get("name", "") if old is not None else "",
        )

    def require_create(self, kind: Kind, namespace: str, name: str, user: User) -> None:
        """Raise a 403 where the user may not create such an object: an apply only says `patch`."""
        wanted = Attributes(
            user=user,
            verb="create",
            group=kind.group,
            version=kind.version,
            resource=kind.plural,
            namespace=namespace if kind.namespaced else "",
            name=name,
        )
        decision = self._authorizer.decide(wanted)
        if not decision.allowed:
            raise forbidden(wanted, decision.reason)

    def fill_in(self, kind: Kind, obj: Object) -> None:
        """Put its token into a Secret that is to hold that of a service account."""
        if kind.resource == "secrets":
            requests.fill_secret(obj, store=self._store, tokens=self._tokens, ca_pem=self._ca_pem)

    def answer(self, kind: Kind, namespace: str, body: Object, user: User) -> Object:
        """What a question, such as a SelfSubjectAccessReview, is answered with."""
        return reviews.answer(
            kind,
            body,
            user,
            authorizer=self._authorizer,
            authenticator=self._authenticator,
            namespace=namespace,
        )

    async def issue_token(
        self, subject: Subject, body: Object, _: Options, form: Form
    ) -> web.Response:
        """The action `token` of a service account."""
        namespace, name = subject.namespace, subject.name
        answer = requests.answer(
            body, store=self._store, tokens=self._tokens, namespace=namespace, name=name
        )
        return answers.shown(subject.kind, answer, form, status=201)
