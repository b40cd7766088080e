"""The version, on its own so that `everwhen --version` imports nothing else."""

__version__ = "0.1.0"
