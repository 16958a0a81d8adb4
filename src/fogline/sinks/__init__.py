"""Places where the batches of a run go: a database, tables, a topic, alerts. Each library is an extra."""

from typing import TYPE_CHECKING

from fogline.face import offer

if TYPE_CHECKING:
    from fogline.sinks.alerts import Command, Webhook
    from fogline.sinks.delta import DeltaSink
    from fogline.sinks.postgres import PostgresSink

__all__ = ["Command", "DeltaSink", "PostgresSink", "Webhook"]

offer(__name__, {"alerts": ("Command", "Webhook"), "delta": ("DeltaSink",), "postgres": ("PostgresSink",)})
