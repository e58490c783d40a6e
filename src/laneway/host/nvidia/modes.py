"""A GPU's modes and GPU instances, which no file tells: the driver's own program is asked.

Lists that are empty make the program fail; that is an answer here, not an error. Anything else that
fails is an OSError whose words hold the exit status and what the program said, and so is an answer
that cannot be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.core.gpu.modes import GpuInstance, GpuModes
from laneway.core.pci import PciAddress
from laneway.host.command import run
from laneway.host.nvidia import smi
from laneway.host.port import Executor

ASK_SECONDS = 30.0
"""How long a question may take. A driver that is busy with a reset answers after seconds."""


async def read_modes(executor: Executor, address: PciAddress) -> GpuModes:
    """What a GPU that the driver has says about itself. Raises OSError with words."""
    report = await ask(executor, smi.query_all(address))
    mig, mixed = smi.parse_mig_mode(report), smi.parse_mixed(report)
    if mig is None:
        return GpuModes(mixed_size=mixed)
    profiles = await ask(executor, smi.list_profiles(address))
    placements = await ask(executor, smi.list_placements(address))
    return GpuModes(
        mig=mig,
        mixed_size=mixed,
        profiles=smi.parse_profiles(profiles, placements),
        instances=await read_instances(executor, address) if mig else (),
    )


async def read_mig_mode(executor: Executor, address: PciAddress) -> bool | None:
    return smi.parse_mig_mode(await ask(executor, smi.query_all(address)))


async def read_mixed(
    executor: Executor, address: PciAddress, instance: int | None = None
) -> bool | None:
    """Whether a card, or a GPU instance of it, carries vGPUs of different sizes at once."""
    if instance is None:
        return smi.parse_mixed(await ask(executor, smi.query_all(address)))
    answer = await ask(executor, smi.query_instance_mixed(address, instance))
    return smi.parse_instance_mixed(answer)


async def read_instances(executor: Executor, address: PciAddress) -> tuple[GpuInstance, ...]:
    """GPU instances by placement; none when MIG mode is off."""
    instances = await ask(executor, smi.list_instances(address))
    if smi.NOTHING_FOUND.search(instances):
        return ()
    return smi.parse_instances(instances, await ask(executor, smi.list_compute_instances(address)))


async def ask(executor: Executor, argv: Sequence[str]) -> str:
    """What the program answers, also that there is nothing."""
    ended = await run(executor, argv, ASK_SECONDS)
    if ended.status == 0 or smi.NOTHING_FOUND.search(ended.output):
        return ended.output
    raise ended.error()
