"""The kinds that Kubernetes itself has: what they look like, and how their objects are treated."""

from laneway.apiserver.builtin.decoding import complete, empty
from laneway.apiserver.builtin.filling import fill_in
from laneway.apiserver.builtin.kinds import KINDS
from laneway.apiserver.builtin.names import (
    CRDS,
    NAMESPACES,
    PROTECTED_NAMESPACES,
    SYSTEM_NAMESPACES,
)
from laneway.apiserver.builtin.problems import problems

__all__ = [
    "CRDS",
    "KINDS",
    "NAMESPACES",
    "PROTECTED_NAMESPACES",
    "SYSTEM_NAMESPACES",
    "complete",
    "empty",
    "fill_in",
    "problems",
]
