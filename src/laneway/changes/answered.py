"""What the answer of the API server to a write means for what is stored."""

from __future__ import annotations

from typing import Literal

from laneway.kube.errors import ApiError, KubeError

_DENIED = "denied the request:"
"""As API servers introduce what an admission webhook says."""


def denial(error: ApiError) -> str:
    """What an admission webhook says; empty where another thing is the reason."""
    _, denied, words = error.message.partition(_DENIED)
    return words.strip() if denied else ""


def words_of(error: Exception) -> str:
    """Why a write failed: in the words of an admission webhook where these are the reason."""
    if not isinstance(error, ApiError):
        return str(error)
    return denial(error) or error.message or str(error)


def failure(error: Exception) -> tuple[Literal["refused", "unknown"], str]:
    """Whether a write that failed is known not to be stored, and why it failed."""
    is_lost = isinstance(error, KubeError) and may_have_happened(error)
    return ("unknown" if is_lost else "refused"), words_of(error)


def may_have_happened(error: KubeError) -> bool:
    """Whether a write that failed may be stored all the same: its answer got lost or damaged."""
    return not isinstance(error, ApiError) or error.code >= 500
