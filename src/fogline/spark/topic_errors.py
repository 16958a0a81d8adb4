"""What does Spark mean, when it has trouble with a topic while a run goes on?"""

from __future__ import annotations

import re

from fogline.errors import FoglineError

_LOST = re.compile(r"failOnDataLoss|KAFKA_DATA_LOSS|OffsetOutOfRangeException")
_AWAY = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:TimeoutException|DisconnectException)|"
    r"Timeout(?:Exception)?[^\n]*(?:fetching|expired before the position|node assignment|topic metadata)"
)


def of_topic(text: str) -> FoglineError | None:
    """The error behind Spark's words, if it is about a topic.

    >>> of_topic("… org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment …")
    FoglineError('no broker of the topic answers any more; start the same command when it is back: it goes on.')
    """
    if _LOST.search(text):
        return FoglineError(
            "the topic has lost messages before they were read: its retention is too short for this run, or it was "
            "deleted. Start the same command again: it states which are lost, and --accept-loss goes on without them."
        )
    if _AWAY.search(text):
        return FoglineError(
            "no broker of the topic answers any more; start the same command when it is back: it goes on."
        )
    return None
