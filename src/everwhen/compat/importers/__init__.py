"""Other schedulers' files as `everwhen.yaml`, with a list of what differs. Nothing of them is ever executed."""
