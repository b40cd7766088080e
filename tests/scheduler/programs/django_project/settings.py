"""The settings of the project."""

import os

_PACKAGE = "tests.scheduler.programs.django_project"

SECRET_KEY = "of a test"
ROOT_URLCONF = f"{_PACKAGE}.urls"
ALLOWED_HOSTS = [".example.com"]
TIME_ZONE = "Europe/Berlin"
USE_TZ = True
INSTALLED_APPS = ["everwhen.django", f"{_PACKAGE}.orders"]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.path.join(os.environ.get("SHOP_FOLDER", ""), "db.sqlite3"),  # noqa: PTH118  # as projects have it
    }
}
EVERWHEN = {"NAME": "shop"}
