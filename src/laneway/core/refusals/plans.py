"""Why a plan is not carried out, or not to its end."""

from __future__ import annotations

from laneway.core.refusals.base import Refusal


class HostBusy(Refusal, frozen=True):
    """Another Laneway process changes this host now."""

    holder: str

    @property
    def words(self) -> str:
        return f"Another process is changing this host: {self.holder}. Try again when it has ended."


class WriteFailed(Refusal, frozen=True):
    """The kernel or the driver refused a step; what was done before it has been undone."""

    step: str
    error: str
    left_over: tuple[str, ...] = ()
    """Steps that could not be undone."""

    @property
    def words(self) -> str:
        text = f"Could not {self.step}: {self.error}."
        if self.left_over:
            text += f" These steps could not be undone: {'; '.join(self.left_over)}."
        return text


class DeviceDisappeared(Refusal, frozen=True):
    """A device was pulled out, or fell off its bus, while a plan changed it."""

    device: str
    step: str
    left_over: tuple[str, ...] = ()
    """Steps on other devices that could not be undone."""

    @property
    def words(self) -> str:
        text = (
            f"{self.device} disappeared before Laneway could {self.step}. Nothing on it is left "
            "to undo. The kernel log has the cause: dmesg"
        )
        if self.left_over:
            text += f" These steps could not be undone: {'; '.join(self.left_over)}."
        return text


class DeviceChanged(Refusal, frozen=True):
    """What an interrupted plan was about has been changed since."""

    step: str

    @property
    def words(self) -> str:
        return (
            f"An interrupted plan had to {self.step}, but another program has changed the device "
            "since, so Laneway does not change it. Run the command again for a new plan."
        )
