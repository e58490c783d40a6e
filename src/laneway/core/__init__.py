"""The pure domain: addresses, names, catalogue, plans, refusals. No input or output, no clock."""
