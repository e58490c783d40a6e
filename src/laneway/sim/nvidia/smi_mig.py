"""`nvidia-smi mig`: GPU instances and the compute instances on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from laneway.sim.nvidia.arguments import Arguments, UsageError, parse
from laneway.sim.nvidia.card import Card, Instance
from laneway.sim.nvidia.driver import NvidiaDriver
from laneway.sim.nvidia.geometry import Profile
from laneway.sim.nvidia.nvml import NvmlError, Status
from laneway.sim.nvidia.selection import select
from laneway.sim.programs import Completed

_VALUED = frozenset({"-i", "-gi", "-ci", "-cgi"})
_FLAGS = frozenset({"-lgip", "-lgipp", "-lgi", "-lci", "-C", "-dci", "-dgi"})
_OPTIONAL = frozenset({"-cci"})


def run(driver: NvidiaDriver, words: Sequence[str]) -> Completed:
    """Carry out what follows `mig` on the command line."""
    arguments = parse(words, _VALUED, _FLAGS, _OPTIONAL)
    verb = next((name for name in _VERBS if name in arguments), None)
    if verb is None:
        raise UsageError("Invalid combination of input arguments.")
    chosen = select(driver, arguments.get("-i"))
    cards = [(driver.gpus().index(path), driver.card(path)) for path in chosen]
    able = [(number, card) for number, card in cards if card.geometry is not None]
    if verb not in ("-lgip", "-lgipp"):
        able = [(number, card) for number, card in able if card.mig]
        if not able:
            # Driver 580 calls it a success to list nothing, as recorded on an H100.
            status = 0 if verb in ("-lgi", "-lci") else Status.NOT_FOUND
            return Completed(status, "No MIG-enabled devices found.\n")
    if not able:
        return Completed(Status.NOT_SUPPORTED, "No MIG-supported devices found.\n")
    return _VERBS[verb](able, arguments)


_Cards = Sequence[tuple[int, Card]]

# -------------------------------------------------------------------------------------- listings


def _list_profiles(cards: _Cards, _: Arguments) -> Completed:
    head = (
        " GPU instance profiles:",
        " GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  ",
        "                                Free/Total   GiB              CE    JPEG  OFA  ",
    )
    rows = [
        _profile_rows(number, card, profile)
        for number, card in cards
        for profile in _profiles(card)
    ]
    return Completed(0, _table(79, head, rows))


def _profile_rows(number: int, card: Card, profile: Profile) -> tuple[str, str]:
    free = profile.total  # What it says while MIG mode is off, too.
    if card.geometry is not None and card.mig:
        free = card.geometry.count_free(profile, card.layout)
    engines = profile.engines
    first = (
        f"{number:>4}  {'MIG ' + profile.name:<18}{profile.id:>4}     {free}/{profile.total}"
        f"        {profile.memory:<5}      No     {profile.processors:<7}"
        f"{engines.dec:<6}{engines.enc:<4}"
    )
    return first, f"{'':63}{profile.copy_engines:<6}{engines.jpeg:<6}{engines.ofa:<4}"


def _list_placements(cards: _Cards, _: Arguments) -> Completed:
    lines = []
    for number, card in cards:
        for profile in _profiles(card):
            word = "Placements" if len(profile.starts) > 1 else "Placement "
            starts = ",".join(map(str, profile.starts))
            lines.append(
                f"GPU {number:>2} Profile ID {profile.id:>2} {word}: {{{starts}}}:{profile.size}\n"
            )
    return Completed(0, "".join(lines))


def _list_instances(cards: _Cards, _: Arguments) -> Completed:
    head = (
        " GPU instances:",
        " GPU   Name               Profile  Instance   Placement  ",
        "                            ID       ID       Start:Size ",
    )
    rows = [
        f"{gpu:>4}  {'MIG ' + one.profile.name:<20}{one.profile.id:>4}{number:>9}"
        f"{one.start:>11}:{one.profile.size:<6}"
        for gpu, card in cards
        for number, one in _instances(card)
    ]
    if not rows:
        return Completed(Status.NOT_FOUND, "No GPU instances found: Not Found\n")
    return Completed(0, _table(57, head, [(row,) for row in rows]))


def _list_computes(cards: _Cards, arguments: Arguments) -> Completed:
    head = (
        " Compute instances:",
        " GPU     GPU       Name             Profile   Instance   Placement  ",
        "       Instance                       ID        ID       Start:Size ",
        "         ID                                                         ",
    )
    rows = [
        f"{gpu:>4}{number:>7}       {_compute_name(one):<17}{_compute_profile(one):>5}"
        f"{0:>10}{0:>11}:{one.profile.slices:<6}"
        for gpu, card in cards
        for number, one in _instances(card)
        if one.computing and arguments.get("-gi", str(number)) == str(number)
    ]
    if not rows:
        return Completed(Status.NOT_FOUND, "No compute instances found: Not Found\n")
    return Completed(0, _table(68, head, [(row,) for row in rows]))


def _table(width: int, head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    edge = f"+{'-' * width}+"
    lines = [edge, *(f"|{text:<{width}}|" for text in head), f"|{'=' * width}|"]
    for row in rows:
        lines += [*(f"|{text:<{width}}|" for text in row), edge]
    return "".join(f"{line}\n" for line in lines)


def _profiles(card: Card) -> Sequence[Profile]:
    return card.geometry.profiles if card.geometry else ()


def _instances(card: Card) -> list[tuple[int, Instance]]:
    """In the order of their profiles, as the program lists them."""
    order = [profile.id for profile in _profiles(card)]
    return sorted(
        card.instances.items(), key=lambda item: (order.index(item[1].profile.id), item[0])
    )


def _compute_name(instance: Instance) -> str:
    """A compute instance that takes all of its GPU instance has its name, without engines."""
    return "MIG " + instance.profile.name.partition("+")[0].partition("-")[0]


def _compute_profile(instance: Instance) -> int:
    return {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}[instance.profile.slices]


# --------------------------------------------------------------------------------------- changes


def _create(cards: _Cards, arguments: Arguments) -> Completed:
    """`-cgi PROFILE[:START],…`: what was created before a failure stays."""
    output = ""
    for gpu, card in cards:
        for text in arguments["-cgi"].split(","):
            wanted, colon, start = text.partition(":")
            try:
                profile, number = _create_one(card, wanted, start if colon else None)
            except NvmlError as error:
                output += (
                    f"Unable to create a GPU instance on GPU {gpu:>2} using profile {wanted}: "
                    f"{error}\nFailed to create GPU instances: {error}\n"
                )
                return Completed(error.status, output)
            output += (
                f"Successfully created GPU instance ID {number:>2} on GPU {gpu:>2} "
                f"using profile MIG {profile.name} (ID {profile.id:>2})\n"
            )
            if "-C" in arguments:
                output += _compute(gpu, card, number)
    return Completed(0, output)


def _create_one(card: Card, wanted: str, start: str | None) -> tuple[Profile, int]:
    profile = card.geometry.profile(wanted) if card.geometry else None
    if profile is None or not (start is None or start.isdecimal()):
        raise NvmlError(Status.INVALID_ARGUMENT)
    return profile, card.create_instance(profile, None if start is None else int(start[:9]))


def _compute(gpu: int, card: Card, number: int, wanted: str = "") -> str:
    instance = card.instance(number)
    if wanted not in ("", str(_compute_profile(instance))):
        raise NvmlError(Status.INVALID_ARGUMENT)
    card.create_compute(number)
    return (
        f"Successfully created compute instance ID  0 on GPU {gpu:>2} GPU instance ID "
        f"{number:>2} using profile {_compute_name(instance)} "
        f"(ID {_compute_profile(instance):>2})\n"
    )


def _create_computes(cards: _Cards, arguments: Arguments) -> Completed:
    """`-cci [PROFILE]`: only the profile that takes all of a GPU instance is known here."""
    output = ""
    for gpu, card in cards:
        for number in _chosen(card, arguments):
            try:
                output += _compute(gpu, card, number, arguments["-cci"])
            except NvmlError as error:
                output += (
                    f"Unable to create a compute instance on GPU {gpu:>2} GPU instance ID "
                    f"{number:>2}: {error}\nFailed to create compute instances: {error}\n"
                )
                return Completed(error.status, output)
    return Completed(0, output) if output else _none("GPU")


def _destroy_computes(cards: _Cards, arguments: Arguments) -> Completed:
    def one(gpu: int, card: Card, number: int) -> str:
        if not card.instance(number).computing:
            return ""
        card.destroy_compute(number)
        return (
            f"Successfully destroyed compute instance ID  0 from GPU {gpu:>2} "
            f"GPU instance ID {number:>2}\n"
        )

    return _destroy(cards, arguments, "compute", one)


def _destroy_instances(cards: _Cards, arguments: Arguments) -> Completed:
    def one(gpu: int, card: Card, number: int) -> str:
        card.destroy_instance(number)
        return f"Successfully destroyed GPU instance ID {number:>2} from GPU {gpu:>2}\n"

    return _destroy(cards, arguments, "GPU", one)


def _destroy(
    cards: _Cards, arguments: Arguments, what: str, one: Callable[[int, Card, int], str]
) -> Completed:
    output = ""
    for gpu, card in cards:
        for number in _chosen(card, arguments):
            try:
                output += one(gpu, card, number)
            except NvmlError as error:
                if error.status is Status.NOT_FOUND:
                    return _none("GPU")
                output += (
                    f"Unable to destroy {what} instance ID {number if what == 'GPU' else 0:>2} "
                    f"from GPU {gpu:>2}{'' if what == 'GPU' else f' GPU instance ID {number:>2}'}: "
                    f"{error}\nFailed to destroy {what} instances: {error}\n"
                )
                return Completed(error.status, output)
    return Completed(0, output) if output else _none(what)


def _chosen(card: Card, arguments: Arguments) -> list[int]:
    """The GPU instances that `-gi` names; all without it."""
    given = arguments.get("-gi")
    if given is None:
        return sorted(card.instances)
    numbers = given.split(",")
    if not all(number.isdecimal() and len(number) <= len("999") for number in numbers):
        raise UsageError(f"Invalid GPU instance ID: {given!r}.")
    return [int(number) for number in numbers]


def _none(what: str) -> Completed:
    return Completed(Status.NOT_FOUND, f"No {what} instances found: Not Found\n")


_VERBS: dict[str, Callable[[_Cards, Arguments], Completed]] = {
    "-lgip": _list_profiles,
    "-lgipp": _list_placements,
    "-lgi": _list_instances,
    "-lci": _list_computes,
    "-cgi": _create,
    "-cci": _create_computes,
    "-dci": _destroy_computes,
    "-dgi": _destroy_instances,
}
