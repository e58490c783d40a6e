"""What the kernel says, parsed: its log, uevents, control groups, and errors of NVIDIA's driver."""
