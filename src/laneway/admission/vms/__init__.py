"""Admission of VMs: what of their devices is refused, and what is made right."""
