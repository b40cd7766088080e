"""The settings of the shop: as `startproject` writes them, and two lines for everwhen."""

from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent
SECRET_KEY = "only-for-this-example"
DEBUG = True
ALLOWED_HOSTS: list[str] = []
INSTALLED_APPS = ["orders", "everwhen.django"]
EVERWHEN = {"NAME": "shop"}
ROOT_URLCONF = "shop.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": BASE_DIR / "db.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TIME_ZONE = "UTC"
USE_TZ = True
