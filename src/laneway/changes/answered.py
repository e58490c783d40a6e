"""What the answer of the API server to a write means for what is stored."""

from __future__ import annotations

from collections.abc import Awaitable

from laneway.kube.errors import ApiError, ForbiddenError, KubeError

_DENIED = "denied the request:"
"""As API servers introduce what an admission webhook says."""


def denial(error: ApiError) -> str:
    """What an admission webhook says; empty where another thing is the reason."""
    _, denied, words = error.message.partition(_DENIED)
    return words.strip() if denied else ""


def words_of(error: KubeError) -> str:
    """What an admission webhook said, or the API server itself, in its own words."""
    if not isinstance(error, ApiError):
        return str(error)
    return denial(error) or error.message or str(error)


async def refusal(dry_run: Awaitable[object]) -> str:
    """Why the rules of admission refuse a dry run of a write; empty where they do not.

    Raises KubeError for every other reason why it fails.
    """
    try:
        await dry_run
    except ForbiddenError as error:
        if words := denial(error):
            return words
        raise
    return ""


def may_have_happened(error: KubeError) -> bool:
    """Whether a write that failed may be stored all the same: its answer got lost or damaged."""
    return not isinstance(error, ApiError) or error.code >= 500
