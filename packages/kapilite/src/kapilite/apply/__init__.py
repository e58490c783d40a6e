"""Server-side apply: who owns which field of an object, and what follows from it.

Pure functions: `manage.updated` and `manage.applied` make the managedFields of a write, the other
modules are their parts. The semantics, the wire format and the texts are those of Kubernetes.
"""
