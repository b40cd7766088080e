"""Importers of other schedulers' files as `everwhen.yaml`, with a list of differences. No file is executed."""
