"""What an authenticated user may do: Kubernetes' role-based access control."""

from __future__ import annotations

from laneway.apiserver.authorization.attributes import Attributes, from_request
from laneway.apiserver.authorization.authorizer import Authorizer, Decision
from laneway.apiserver.authorization.gate import middleware
from laneway.apiserver.authorization.refusal import forbidden

__all__ = [
    "Attributes",
    "Authorizer",
    "Decision",
    "forbidden",
    "from_request",
    "middleware",
]
