"""The command line: noun, then verb. Data goes to stdout, talk to stderr."""
