"""Why hosts are not prepared as a policy desires."""

from __future__ import annotations

from laneway.core.phrases import shown
from laneway.core.refusals.base import Refusal


class HostPolicyInvalid(Refusal, frozen=True):
    """A policy says what no host can have, or what Laneway leaves to administrators."""

    name: str
    problems: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"hostpolicy {shown(self.name)}: {'; '.join(self.problems)}."
