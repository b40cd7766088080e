"""The Python API: a `Scheduler` inside any program, with threads or with asyncio."""
