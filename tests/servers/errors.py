"""The two errors of the test servers; every message says what to do."""


class ServerError(RuntimeError):
    """A server did not start, stop or clean up as it should."""


class MissingServerError(ServerError):
    """There is no program to start; the message names the package to install."""
