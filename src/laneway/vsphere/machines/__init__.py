"""Machines on vSphere by Laneway alone: what CAPV's controllers do, with the devices they lack."""

from laneway.vsphere.machines.controllers import parts

__all__ = ["parts"]
