"""The kinds that Kubernetes itself has: what they look like, and how their objects are treated."""

from kapilite.builtin.decoding import complete, empty
from kapilite.builtin.filling import fill_in
from kapilite.builtin.kinds import KINDS
from kapilite.builtin.names import (
    CRDS,
    NAMESPACES,
    PROTECTED_NAMESPACES,
    SYSTEM_NAMESPACES,
)
from kapilite.builtin.problems import problems

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
