"""A Django project with `everwhen.django`: tasks, a view that triggers one, and the API under a prefix."""
