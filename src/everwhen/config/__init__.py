"""Configuration files: from YAML to submissions, every mistake with its file and place."""
