"""What an authenticated user may do: Kubernetes' role-based access control."""

from __future__ import annotations

from kapilite.authorization.attributes import Attributes, from_request
from kapilite.authorization.authorizer import Authorizer, Decision
from kapilite.authorization.gate import middleware
from kapilite.authorization.refusal import forbidden

__all__ = [
    "Attributes",
    "Authorizer",
    "Decision",
    "forbidden",
    "from_request",
    "middleware",
]
