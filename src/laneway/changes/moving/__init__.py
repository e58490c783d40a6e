"""Moves of VMs with their vGPUs, as `laneway plan moves` proposes them, made one by one.

The rule for each: the vGPU at the target is made first, the VM moves, and the vGPU that it left is
removed only once the cluster itself says that the move is done. What fails before that is undone.
"""
