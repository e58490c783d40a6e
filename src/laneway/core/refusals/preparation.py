"""Why a host is not prepared."""

from __future__ import annotations

from laneway.core.refusals.base import Refusal


class PreparationInvalid(Refusal, frozen=True):
    """What is asked of a host cannot be asked of any."""

    problems: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"The host is not prepared: {'; '.join(self.problems)}. Nothing is changed."


class KernelArgumentConflict(Refusal, frozen=True):
    """An administrator wrote a kernel argument that contradicts what is requested."""

    wanted: str
    word: str
    place: str
    """The file that it stands in."""

    @property
    def words(self) -> str:
        return (
            f"{self.wanted} is not added to the kernel command line, because {self.place} has "
            f"{self.word}, which contradicts it. Remove {self.word} from {self.place}, or do not "
            f"request {self.wanted}."
        )


class BootLoaderUnknown(Refusal, frozen=True):
    """Nothing that Laneway knows boots this host."""

    by_hand: tuple[str, ...]
    """Words to add."""

    @property
    def words(self) -> str:
        return (
            "Laneway does not know the boot loader of this host, so it does not change it. Add this"
            f" to the kernel command line by hand, and reboot the host: {' '.join(self.by_hand)}"
        )


class BootConfigurationDamaged(Refusal, frozen=True):
    """The host might not boot as it is configured, whether or not something is added."""

    problems: tuple[str, ...]

    @property
    def words(self) -> str:
        return (
            f"The boot configuration is damaged: {'; '.join(self.problems)}. Laneway does not "
            "change or boot it. Repair it first."
        )


class BootConfigurationUnreadable(Refusal, frozen=True):
    """What boots the host cannot be read."""

    files: tuple[str, ...]
    """Each with the reason."""

    @property
    def words(self) -> str:
        return (
            "Laneway cannot read what boots this host, so it changes nothing: "
            f"{'; '.join(self.files)}. Run Laneway as root of the host; the files must be "
            "text in UTF-8."
        )


class RequirementImpossible(Refusal, frozen=True):
    """No change of files makes the host what is requested."""

    requirement: str
    why: str

    @property
    def words(self) -> str:
        return f"{self.requirement} is not possible on this host: {self.why}"
