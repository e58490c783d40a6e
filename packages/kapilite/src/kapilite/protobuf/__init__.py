"""Objects in Kubernetes' protobuf form, which client-go programs and kubectl send.

Only requests are read; answers are JSON, which every client that sends protobuf accepts too.
"""

from kapilite.protobuf.messages import decode

__all__ = ["decode"]
