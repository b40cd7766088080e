"""Queues that carry jobs to workers which are not ours. Each is an extra, and imported only where it is chosen."""
