"""Django's application with the API under a prefix."""

import os

from django.core.asgi import get_asgi_application

from everwhen.django import mount_api

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.scheduler.programs.django_project.settings")
application = mount_api(get_asgi_application(), "/tools/everwhen/")
