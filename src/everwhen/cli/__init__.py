"""The command line: noun, then verb. Data goes to stdout, progress and notes to stderr."""
