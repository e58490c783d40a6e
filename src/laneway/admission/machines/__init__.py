"""Admission of virtual machines: what of their devices is refused, and what is made right."""
