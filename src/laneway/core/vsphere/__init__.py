"""GPUs of vSphere: what is asked for, what hosts have, who is promised what, what to do next."""
