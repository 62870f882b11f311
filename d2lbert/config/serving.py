"""Settings of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from d2lbert.config.settings import Settings, setting


@dataclass(frozen=True)
class ServerSettings(Settings):
    """How much the server takes in, how it batches, and how long it waits."""

    kind: ClassVar[str] = "server"

    batch_tokens: int = setting(2048, "most tokens that are computed at once", at_least=1)
    queue_tokens: int = setting(65_536, "most tokens that wait; more is refused with 429", at_least=1)
    body_bytes: int = setting(6_291_456, "largest body of a request, in bytes; SageMaker sends no more", at_least=1)
    waiting_bytes: int = setting(67_108_864, "most bytes of bodies in memory; more is refused with 503", at_least=1)
    texts_per_request: int = setting(10_000, "most texts of a request", at_least=1)
    deadline_seconds: float = setting(55.0, "an answer that takes longer is not waited for: 504", above=0)
    reading_seconds: float = setting(
        30.0, "a head or a body that takes longer to arrive is not waited for: 408", above=0
    )
    linger_seconds: float = setting(
        1.0, "after SIGTERM, how long requests are still accepted, until whoever sends them knows", at_least=0
    )
    drain_seconds: float = setting(25.0, "after that, how long accepted requests may take", at_least=0)
