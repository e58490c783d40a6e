"""Why a device is not handed to pods, or cannot be taken from them."""

from __future__ import annotations

from laneway.core.phrases import quoted
from laneway.core.refusals.base import Refusal


class ResourceNameInvalid(Refusal, frozen=True):
    """A written resource name is not valid."""

    text: str
    where: str
    """The object that says it."""

    @property
    def words(self) -> str:
        return (
            f"The resource name {quoted(self.text)} that {self.where} requests (annotation "
            "pcidevice.harvesterhci.io/override-resource-name) is not valid: it needs a domain, a "
            "'/' and a name of letters, digits, '-', '_' and '.' with a letter or digit at both "
            "ends; both together have at most 60 characters, and the domain is not "
            "kubernetes.io. Correct or remove the annotation."
        )


class AllocationUnknown(Refusal, frozen=True, tag="HoldersUnknown"):
    """The kubelet, or the API server, does not tell who has devices."""

    device: str
    problem: str

    @property
    def words(self) -> str:
        return (
            f"Laneway cannot determine whether {self.device} is allocated to a pod, so it is not "
            f"changed: {self.problem}. Laneway retries by itself; until then no new pod gets the "
            "device."
        )
