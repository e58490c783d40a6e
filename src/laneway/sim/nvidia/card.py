"""Which vGPUs one GPU still takes: the driver's accounting, without any files.

Three ways to share a GPU, and the driver enforces each exactly:

- Same size. All vGPUs have one framebuffer size, whatever their series; the first one decides it
  and with the last one the choice is free again. A type is creatable while fewer vGPUs exist than
  that type's own maximum.
- Mixed size. A type is creatable exactly when one of its fixed placements overlaps no vGPU that
  exists. Its maximum plays no part.
- MIG. A MIG-backed type goes to the GPU instance of the lowest id that has its flags and room;
  inside an instance that is shared, one of the two rules above holds.

What a dump shows as configured is taken as given, also where it breaks these rules: an existing
vGPU of any other size then rules a type out. A mode changes only while no vGPU exists.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import msgspec

from laneway.sim.nvidia.geometry import Geometry, Placement, Profile
from laneway.sim.nvidia.nvml import NvmlError, Status
from laneway.sim.nvidia.types import CardType

MAX_VGPUS = 48
MAX_TIME_SLICED = 32
MAX_PER_INSTANCE = 12


class Vgpu(msgspec.Struct, frozen=True):
    """A vGPU that exists."""

    kind: CardType
    placement: int | None = None
    """Inside its GPU instance, where it has one."""
    instance: int | None = None


class Instance(msgspec.Struct):
    """A GPU instance."""

    profile: Profile
    start: int
    computing: bool = False
    """Whether the compute instance that takes all of it exists."""
    mixed: bool = False


class Card:
    """The vGPUs of one GPU, by the function that carries them, and its modes."""

    def __init__(self, types: tuple[CardType, ...], geometry: Geometry | None = None) -> None:
        self.types = {kind.id: kind for kind in types}
        self.geometry = geometry
        self.mig = False
        self.mixed = False
        self.instances: dict[int, Instance] = {}
        self._vgpus: dict[str, Vgpu] = {}
        self._open = types
        self._announced = frozenset(types)
        self._update()

    # ------------------------------------------------------------------------------------ vGPUs

    @property
    def vgpus(self) -> tuple[Vgpu, ...]:
        return tuple(self._vgpus.values())

    @property
    def functions(self) -> tuple[str, ...]:
        """Those that carry a vGPU."""
        return tuple(self._vgpus)

    def vgpu(self, function: str) -> Vgpu | None:
        return self._vgpus.get(function)

    def creatable(self, function: str) -> tuple[CardType, ...]:
        """What a function takes now: exactly what `create` accepts."""
        return () if function in self._vgpus else self._open

    def announced(self, function: str, kind: CardType) -> bool:
        """What `available_instances` says: it counts all vGPUs against the type's maximum.

        So with mixed sizes it denies types that can be created.
        """
        return function not in self._vgpus and kind in self._announced

    def create(self, function: str, kind: CardType) -> bool:
        """Make a vGPU; False if it is not creatable."""
        if kind not in self.creatable(function):
            return False
        self.adopt(function, kind)
        return True

    def adopt(self, function: str, kind: CardType) -> None:
        """Record a vGPU, whether or not it was creatable.

        A MIG-backed one brings the mode and the GPU instance that it must have.
        """
        if kind.flags:
            self.mig = True
        if next(self._homes(kind), None) is None:
            self._make_home(kind)
        where = next(self._homes(kind), None)
        placement, instance = where or (None, None)
        self._vgpus[function] = Vgpu(kind, placement, instance)
        self._update()

    def remove(self, function: str) -> None:
        if self._vgpus.pop(function, None) is not None:
            self._update()

    # ------------------------------------------------------------------------------------ modes

    @property
    def mixes_sizes(self) -> bool:
        """Whether the hardware can carry vGPUs of several sizes at once."""
        return any(kind.mixed_ids for kind in self.types.values() if not kind.flags)

    def set_mixed(self, *, enabled: bool) -> None:
        if self.mig or not self.mixes_sizes:
            raise NvmlError(Status.NOT_SUPPORTED)
        if self._vgpus:
            raise NvmlError(Status.IN_USE)
        self.mixed = enabled
        self._update()

    def set_instance_mixed(self, number: int, *, enabled: bool) -> None:
        instance = self.instance(number)
        if self.geometry is None or not self.geometry.time_slicing:
            raise NvmlError(Status.NOT_SUPPORTED)
        if self._on(number):
            raise NvmlError(Status.IN_USE)
        instance.mixed = enabled
        self._update()

    def set_mig(self, *, enabled: bool, busy: bool) -> None:
        """Change MIG mode, which resets the GPU: not while something is on it, or uses it."""
        if self.geometry is None:
            raise NvmlError(Status.NOT_SUPPORTED)
        if enabled == self.mig:
            return
        if busy or self._vgpus or self.instances:
            raise NvmlError(Status.IN_USE)
        self.mig = enabled
        self.mixed = False
        self._update()

    def rebound(self) -> None:
        """The driver released the GPU and took it again: only MIG mode itself outlasts that."""
        self.mixed = False
        self.instances.clear()
        self._update()

    # ------------------------------------------------------------------------------ GPU instances

    @property
    def layout(self) -> tuple[Placement, ...]:
        return tuple((one.profile, one.start) for one in self.instances.values())

    def instance(self, number: int) -> Instance:
        if number not in self.instances:
            raise NvmlError(Status.NOT_FOUND)
        return self.instances[number]

    def create_instance(self, profile: Profile, start: int | None = None) -> int:
        """Make a GPU instance, at the start that the driver prefers unless one is given."""
        if self.geometry is None or not self.mig:
            raise NvmlError(Status.NOT_SUPPORTED)
        if start is None:
            start = self.geometry.choose(profile, self.layout)
        elif start not in profile.starts:
            raise NvmlError(Status.INVALID_ARGUMENT)
        if start is None or start not in self.geometry.free_starts(profile, self.layout):
            raise NvmlError(Status.INSUFFICIENT_RESOURCES)
        number = self.geometry.instance_id(profile, start)
        self.instances[number] = Instance(profile, start)
        self._update()
        return number

    def destroy_instance(self, number: int) -> None:
        if self.instance(number).computing or self._on(number):
            raise NvmlError(Status.IN_USE)
        del self.instances[number]
        self._update()

    def create_compute(self, number: int) -> None:
        instance = self.instance(number)
        if instance.computing:
            raise NvmlError(Status.INSUFFICIENT_RESOURCES)
        instance.computing = True

    def destroy_compute(self, number: int) -> None:
        if self._on(number):
            raise NvmlError(Status.IN_USE)
        self.instance(number).computing = False

    # ------------------------------------------------------------------------------------- rules

    def _homes(self, kind: CardType) -> Iterator[tuple[int | None, int | None]]:
        """Where a vGPU of the type fits now: placement and GPU instance, the driver's choice first.

        A placement is None where the driver has none to give.
        """
        if len(self._vgpus) >= MAX_VGPUS or bool(kind.flags) != self.mig:
            return
        if not self.mig:
            if len(self._vgpus) < MAX_TIME_SLICED:
                for placement in _room(kind, self.vgpus, mixed=self.mixed):
                    yield placement, None
            return
        for number in sorted(self.instances):
            instance, there = self.instances[number], self._on(number)
            if instance.profile.flags == kind.flags and len(there) < MAX_PER_INSTANCE:
                for placement in _room(kind, there, mixed=instance.mixed):
                    yield placement, number

    def _make_home(self, kind: CardType) -> None:
        """Create the GPU instance that a MIG-backed type needs, if there is room."""
        profiles = self.geometry.profiles if self.geometry and kind.flags else ()
        for profile in profiles:
            if profile.flags == kind.flags:
                with contextlib.suppress(NvmlError):
                    self.create_instance(profile)

    def _same_size_fits(self, kind: CardType) -> bool:
        if not self.mig:
            return len(self._vgpus) < kind.maximum
        return any(
            one.profile.flags == kind.flags
            and any(True for _ in _room(kind, self._on(number), mixed=False))
            for number, one in self.instances.items()
        )

    def _on(self, number: int) -> tuple[Vgpu, ...]:
        return tuple(one for one in self._vgpus.values() if one.instance == number)

    def _update(self) -> None:
        self._open = tuple(
            kind for kind in self.types.values() if next(self._homes(kind), None) is not None
        )
        self._announced = frozenset(kind for kind in self._open if self._same_size_fits(kind))


def _room(kind: CardType, there: Iterable[Vgpu], *, mixed: bool) -> Iterator[int | None]:
    """Where one more vGPU of the type fits with others; lowest first, None for `anywhere`."""
    there = tuple(there)
    sizes = {one.kind.framebuffer_mib for one in there}
    if not mixed and (len(there) >= kind.maximum or not sizes <= {kind.framebuffer_mib}):
        return
    ids = kind.mixed_ids if mixed else kind.same_ids
    if not ids and not mixed:
        yield None
    for start in ids:
        if not any(_overlap(start, kind.slots, one) for one in there):
            yield start


def _overlap(start: int, slots: int, vgpu: Vgpu) -> bool:
    at = vgpu.placement
    return at is not None and start < at + vgpu.kind.slots and at < start + slots
