"""What is wrong with where traces or the audit record are to go."""


class TelemetryError(Exception):
    """It cannot begin; the text says what to do."""


class SendError(Exception):
    """A batch was not taken; the text says why."""
