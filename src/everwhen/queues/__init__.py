"""Queues that deliver jobs to third-party workers. Each is an extra, and imported only when it is configured."""
