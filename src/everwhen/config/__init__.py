"""Configuration files: from YAML to declared schedules, with the file and place of every mistake."""
