"""What the shop does by the clock."""

from everwhen.django import scheduler
from orders.models import Order


@scheduler.cron("0 9 * * 1-5", timezone="Europe/Paris", id="report")
def report() -> str:
    return f"{Order.objects.count()} orders"


def thank(order: int) -> str:
    Order.objects.filter(pk=order).update(is_thanked=True)
    return f"thank you for order {order}"
