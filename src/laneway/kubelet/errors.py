"""What went wrong between Laneway and the kubelet, in words for the condition of an object.

Whatever a library or the kernel raises on the way becomes one line that says which file the
kubelet should have answered at, and what happened there instead.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError


class KubeletError(Exception):
    """The kubelet could not be asked; the text says why."""


FAILURES = (OSError, GRPCError, ProtocolError, StreamTerminatedError, AttributeError)
"""What a call to the kubelet ends in without an answer, or with a refusal; see `in_words`.

AttributeError: a connection of grpclib has no transport any more if the kubelet closes it in the
moment between its being made and the request.
"""

NONSENSE = (DecodeError, NotImplementedError, AssertionError, UnicodeError, ValueError)
"""What reading a message that is no message ends in: grpclib checks lengths by `assert`."""


def in_words(error: BaseException, path: str, seconds: float) -> str:
    """Why a call at this path, with this limit of time, was not answered."""
    match error:
        case GRPCError():
            said = error.message or "without a reason"
            return f"the kubelet refused at {path}: {said} ({error.status.name})"
        case FileNotFoundError() | NotADirectoryError():
            return f"no kubelet: {path} does not exist"
        case ConnectionRefusedError():
            return f"no kubelet: no process listens at {path}"
        case TimeoutError():
            return f"the kubelet did not answer at {path} within {seconds:g} s"
        case PermissionError():
            return f"{path} may not be opened: {error.strerror}"
        case ConnectionError() | StreamTerminatedError() | ProtocolError() | AttributeError():
            return f"the kubelet closed the connection at {path} without an answer"
        case OSError():
            return f"{path} cannot be reached: {error.strerror or error}"
    return f"what answers at {path} is not a kubelet: {error}"
