"""Shapes, function names and importers of Pipelit, SYRIS, herdctl, Ductile, crontab and Celery."""
