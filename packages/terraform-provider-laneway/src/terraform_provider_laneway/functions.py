"""Functions, which need no cluster: names of resources, and what a machine configuration says."""

from __future__ import annotations

from typing import Any

from tf.function import FunctionSignature, Parameter, Return

from laneway.core.machine_pools import device_info
from laneway.core.machine_pools.device_info import MOST, VGPUS, DeviceInfo
from laneway.core.names import is_resource_name, vgpu_resource_name
from terraform_provider_laneway.values import COUNTS, TEXT


class ResourceName:
    """The resource of a profile: `provider::laneway::resource_name("NVIDIA A2-4Q")`."""

    @classmethod
    def get_name(cls) -> str:
        return "resource_name"

    @classmethod
    def get_signature(cls) -> Any:
        return FunctionSignature(
            parameters=[
                Parameter("profile", TEXT, "A profile, as the driver prints it: `NVIDIA A2-4Q`.")
            ],
            return_type=Return(TEXT),
            summary="The resource of a vGPU profile",
            description="The name of the resource that VMs request for a vGPU of a profile: "
            "`nvidia.com/NVIDIA_A2-4Q` for `NVIDIA A2-4Q`.",
        )

    def call(self, ctx: Any, arguments: list[Any]) -> Any:
        [profile] = arguments
        if not profile.strip():
            ctx.diagnostics.add_error(
                "profile is empty; write it as the driver prints it: NVIDIA A2-4Q"
            )
            return None
        return vgpu_resource_name(profile)


class VgpuInfo:
    """The field of a machine configuration that requests vGPUs."""

    @classmethod
    def get_name(cls) -> str:
        return "vgpu_info"

    @classmethod
    def get_signature(cls) -> Any:
        return FunctionSignature(
            parameters=[
                Parameter("requests", COUNTS, "How many vGPUs of each resource a machine has.")
            ],
            return_type=Return(TEXT),
            summary="The field vgpuInfo of a machine configuration",
            description="The text for `vgpu_info` of `rancher2_machine_config_v2`, as Harvester's "
            "and Laneway's machine drivers read it. Empty where no vGPU is requested.",
        )

    def call(self, ctx: Any, arguments: list[Any]) -> Any:
        [requests] = arguments
        for resource, count in requests.items():
            if not is_resource_name(resource):
                ctx.diagnostics.add_error(
                    f"{resource[:80]!r} is not the name of a resource, such as "
                    'nvidia.com/NVIDIA_A2-4Q; provider::laneway::resource_name("NVIDIA A2-4Q") '
                    "gives that of a profile"
                )
            elif not isinstance(count, int) or not 0 <= count <= MOST:
                ctx.diagnostics.add_error(f"{resource}: {count} is not a number of 0 to {MOST}")
        if sum(one for one in requests.values() if isinstance(one, int)) > MOST:
            ctx.diagnostics.add_error(f"a machine can have {MOST} vGPUs at most")
        if ctx.diagnostics.has_errors():
            return None
        return device_info.write(VGPUS, device_info.changed(DeviceInfo(), requests))


ALL: tuple[Any, ...] = (ResourceName, VgpuInfo)
