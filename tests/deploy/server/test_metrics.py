"""What is counted comes out as Prometheus reads it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from d2lbert.deploy.server.metrics import Metrics


def values(metrics: Metrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {f"{s.name}{sorted(s.labels.values())}": s.value for family in families for s in family.samples}


def test_requests_and_batches_are_counted() -> None:
    metrics = Metrics()
    metrics.request("/ping", 200, 0.2)
    metrics.request("/ping", 200, 0.2)
    metrics.batch(texts=3, tokens=40, seconds=0.5)
    metrics.waiting.set(7)
    found = values(metrics)
    assert found["d2lbert_requests_total['/ping', '200']"] == 2
    assert found["d2lbert_request_seconds_sum['/ping']"] == 0.4
    assert found["d2lbert_texts_total[]"] == 3
    assert found["d2lbert_tokens_total[]"] == 40
    assert found["d2lbert_computing_seconds_total[]"] == 0.5
    assert found["d2lbert_waiting_tokens[]"] == 7


def test_two_servers_count_apart() -> None:
    one, other = Metrics(), Metrics()
    one.batch(1, 1, 1.0)
    assert values(other)["d2lbert_texts_total[]"] == 0
