"""A view that triggers a task when its transaction commits."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path

from everwhen.django import scheduler


def order(request: HttpRequest) -> HttpResponse:
    with transaction.atomic():
        transaction.on_commit(lambda: scheduler.trigger("confirm"))
        if "fails" in request.GET:
            transaction.set_rollback(True)
    return HttpResponse(scheduler.get_status())


urlpatterns = [path("order/", order)]
