"""What the agent of a node would do with a GPU, asked with the user's own token for a page.

The question is a layout that changes nothing and is deleted again. A page does not wait long for
the answer, and says why it has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from laneway.api import VGPULayout
from laneway.changes import trial
from laneway.changes.answered import denial, words_of
from laneway.changes.errors import ChangeError
from laneway.changes.trial import Trial
from laneway.kube.errors import (
    CredentialsError,
    ForbiddenError,
    InvalidError,
    KubeError,
    UnauthorizedError,
)
from laneway.kube.resource import served
from laneway.views.gpus import Gpu
from laneway.web.access import question
from laneway.web.visit import Visit

LAYOUT = served(VGPULayout)
CREATE, DELETE = question("create", LAYOUT), question("delete", LAYOUT)
PATCH = question("patch", LAYOUT)
ASKED = (CREATE, DELETE, PATCH)
SECONDS = 5.0
_AT_ONCE = 8


class Asked(NamedTuple):
    """An answer, or why there is none."""

    trial: Trial | None
    why: str = ""
    is_forbidden: bool = False
    """The user has no right to ask; then what the objects show has to do."""

    @property
    def refusals(self) -> Sequence[str]:
        return self.trial.refusals if self.trial is not None else ()


async def ask(visit: Visit, gpu: Gpu, spec: Mapping[str, Any], seconds: float = SECONDS) -> Asked:
    """What the agent would do for a layout of this spec."""
    if not (visit.may(CREATE) and visit.may(DELETE)):
        return Asked(None, visit.texts("gpus.no_trial_right"), is_forbidden=True)
    if gpu.stale:
        return Asked(None, visit.texts("gpus.no_agent", node=gpu.node, why=gpu.stale))
    try:
        return Asked(await trial.ask(visit.client, gpu, spec, seconds=seconds))
    except ForbiddenError as error:
        # An admission webhook's refusal of the layout is one of the real layout as well.
        if words := denial(error):
            return Asked(Trial(refusals=(words,)))
        return Asked(None, words_of(error), is_forbidden=True)
    except InvalidError as error:
        return Asked(Trial(refusals=(words_of(error),)))
    except (UnauthorizedError, CredentialsError):
        raise  # the session is over
    except KubeError as error:
        return Asked(None, words_of(error))
    except ChangeError as error:
        return Asked(None, str(error))


async def ask_all(
    visit: Visit, questions: Sequence[tuple[Gpu, Mapping[str, Any]]]
) -> dict[str, Asked]:
    """The same for several GPUs, by name; a few are asked at a time."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def one(gpu: Gpu, spec: Mapping[str, Any]) -> tuple[str, Asked]:
        async with turns:
            return gpu.name, await ask(visit, gpu, spec)

    return dict(await asyncio.gather(*(one(gpu, spec) for gpu, spec in questions)))
