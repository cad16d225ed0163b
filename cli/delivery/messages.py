"""Sends an alert as a message to an Apprise URL: mail, chat, push.

Apprise comes with the extra `notify` and is imported only to send. Its addresses are secrets,
so nothing that it logs or raises is shown: of an address no more than the kind of service.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.errors import NotDelivered
from ...core.masking import whose

if TYPE_CHECKING:
    from collections.abc import Mapping

SECONDS = 30.0
"""So long may one message take, whatever its service does."""


def send(address: str, alert: Mapping[str, Any], seconds: float = SECONDS) -> None:
    """Send it. Raises `NotDelivered`."""
    try:
        import apprise
    except ImportError:
        from ...core.extras import install

        raise NotDelivered(
            f"[alerts] notify needs Apprise, which is not installed: {install('notify')}"
        ) from None
    import logging

    from .bounded import within

    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    service = apprise.Apprise()
    if not service.add(address):
        raise NotDelivered(f"{whose(address)} is no address that Apprise knows")
    cleared = alert["state"] == "cleared"
    body = str(alert["text"]) + ("" if cleared else f"\n{alert['next']}")
    title = f"reconcile: {alert['job']} {alert['interval']} {alert['kind'].replace('_', ' ')}"
    message: dict[str, Any] = {
        "title": f"{title}: over" if cleared else title,
        "body": f"{body}\nhost {alert['host']}, {alert['id']}",
        "notify_type": apprise.NotifyType.SUCCESS if cleared else apprise.NotifyType.FAILURE,
    }
    if not within(seconds, lambda: bool(service.notify(**message))):
        raise NotDelivered(f"{whose(address)} did not take the message within {seconds:g}s")
