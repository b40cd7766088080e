"""The version and the systems that it runs on, on their own so that `everwhen --version` imports nothing else."""

__version__ = "0.3.0"
NOT_ON_WINDOWS = "everwhen does not run on Windows; run it in WSL 2, in a container, or on another machine"
