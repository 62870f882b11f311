"""What the server counts, in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


class Metrics:
    """Counters of one server; each server has its own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "d2lbert_requests_total", "requests by path and status", ["path", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "d2lbert_request_seconds", "time to the answer", ["path"], buckets=_SECONDS, registry=self.registry
        )
        self._texts = Counter("d2lbert_texts_total", "texts that were computed", registry=self.registry)
        self._tokens = Counter("d2lbert_tokens_total", "tokens that were computed", registry=self.registry)
        self._batch = Histogram("d2lbert_batch_tokens", "tokens of a batch", buckets=_TOKENS, registry=self.registry)
        self._computing = Counter("d2lbert_computing_seconds_total", "time spent computing", registry=self.registry)
        self.waiting = Gauge("d2lbert_waiting_tokens", "tokens that wait", registry=self.registry)
        self.bodies = Gauge("d2lbert_waiting_bytes", "bytes of bodies in memory", registry=self.registry)

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def batch(self, texts: int, tokens: int, seconds: float) -> None:
        """Count a computed batch."""
        self._texts.inc(texts)
        self._tokens.inc(tokens)
        self._batch.observe(tokens)
        self._computing.inc(seconds)

    def text(self) -> bytes:
        """Return all of it as Prometheus reads it."""
        return generate_latest(self.registry)
