"""Programs that embed a scheduler, as people write them; each is run for real by tests/app/test_frameworks.py."""
