"""NVIDIA's host driver for vGPUs and the programs that come with it, on a simulated host.

`geometry` and `card` are accounting without files: where GPU instances lie on a chip, and which
vGPUs a GPU still takes. `driver` puts a GPU's files into the tree, in the words of `mdev` or of
`vendor`; `smi` and `sriov_manage` are the two programs. None of it shares a rule with `core`, which
plans layouts: the accounting here is the second opinion that those plans are tested against.
"""
