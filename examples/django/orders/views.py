"""A view that schedules something when its transaction has committed."""

from django.db import transaction
from django.http import HttpRequest, HttpResponse

from everwhen.django import scheduler
from orders.models import Order
from orders.tasks import thank


@transaction.atomic
def buy(request: HttpRequest) -> HttpResponse:
    order = Order.objects.create()
    transaction.on_commit(
        lambda: scheduler.add(f"thank-{order.pk}", thank, after="1s", kwargs={"order": order.pk})
    )
    return HttpResponse(f"order {order.pk}\n")
