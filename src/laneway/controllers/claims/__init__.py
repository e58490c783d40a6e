"""Carries out claims: devices that VMs are to have, whole."""
