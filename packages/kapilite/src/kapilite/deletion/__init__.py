"""Deletion: the verb, and everything that follows from it.

`verb` marks or removes one object. `follow` says which work a change makes, and the store writes
it down with the change. `collector` does that work in the background, in short slices: dependents
follow their owners (`owners`), content its namespace (`namespaces`) and objects their definition
(`definitions`). So a crash at any moment loses nothing that had to follow.
"""

from kapilite.deletion.background import Deletion
from kapilite.deletion.options import DeleteOptions, parse
from kapilite.deletion.verb import Deleted, Stale, is_released

__all__ = ["DeleteOptions", "Deleted", "Deletion", "Stale", "is_released", "parse"]
