"""Orders."""

from django.db import models


class Order(models.Model):
    is_thanked = models.BooleanField(default=False)
