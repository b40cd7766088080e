"""An application of the project."""
