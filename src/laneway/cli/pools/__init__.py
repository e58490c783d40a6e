"""`laneway pools`: the GPUs of guest clusters' machine pools."""
