"""The server's limits fit those of SageMaker."""

from __future__ import annotations

import pytest

from d2lbert import UserError
from d2lbert.config.serving import ServerSettings


def test_defaults_fit_the_contract_of_sagemaker() -> None:
    settings = ServerSettings()
    assert settings.body_bytes == 6 * 2**20
    assert settings.deadline_seconds < 60, "SageMaker waits no longer"
    assert settings.linger_seconds + settings.drain_seconds < 30, "then it kills"
    assert settings.batch_tokens < settings.queue_tokens


@pytest.mark.parametrize("name", ["batch_tokens", "queue_tokens", "body_bytes", "deadline_seconds"])
def test_nothing_is_zero(name: str) -> None:
    with pytest.raises(UserError, match=f"server: {name} is 0"):
        ServerSettings(**{name: 0})
