"""The same server on Ray Serve: several replicas on one machine, or on many.

A replica is the whole server, with its own models and its own queue; Ray Serve sends each request to one of them. For
one machine without a GPU more replicas are no gain, since a batch uses all its processors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from d2lbert.config.serving import ServerSettings

# Our own queue refuses what is too much and says when to come back, so Ray need not.
_ONGOING = 10_000


def scaled(sources: Mapping[str, str], replicas: int = 2, settings: ServerSettings | None = None) -> Any:
    """Return the application for ``ray.serve.run``.

    Args:
        sources: name of a model -> its folder, or its name in the zoo; on every machine of the cluster.
        replicas: how many servers.
        settings: of each of them.
    """
    from ray import serve

    from d2lbert.deploy.server.app import make_app
    from d2lbert.deploy.server.core import Server
    from d2lbert.deploy.server.models import Models

    limits = settings or ServerSettings()

    class Replica:
        """One server."""

    served = serve.ingress(lambda: make_app(Server(Models(sources), limits)))(Replica)
    deployed: Any = serve.deployment(num_replicas=replicas, max_ongoing_requests=_ONGOING)(served)
    return deployed.bind()
