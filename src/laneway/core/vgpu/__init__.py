"""vGPUs: which profiles there are, how many fit, in which order, and what to do about one."""
