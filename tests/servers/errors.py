"""The two ways in which a server for tests can fail its caller; every message says what to do."""


class ServerError(RuntimeError):
    """A server did not start, stop or clear away as it should."""


class MissingServerError(ServerError):
    """There is no program to start; the message names what to install."""
