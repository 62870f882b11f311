"""A classifier behind a plain FastAPI address: a side of ``benchmarks/deployment/serving.py``.

This is what one writes first. The model is loaded when the program starts, and a function answers a request; FastAPI
calls it in one of its threads. A lock lets one text at a time through: several at once would share the processors, and
each would take longer. The model and its precision are those of our server.

    python -m benchmarks.plain_server --port 8000 --model minilm-sst2
"""

from __future__ import annotations

import threading
from typing import Any

import uvicorn
from fastapi import FastAPI

from benchmarks.command_line import command_line
from d2lbert.data import Sentence
from d2lbert.deploy.exported import load_trained
from d2lbert.tasks.table import named_task
from d2lbert.torch.training.evaluation import predict


def application(source: str) -> FastAPI:
    """Return the application; ``source`` is a fine-tuned classifier."""
    model, tokenizer = load_trained(source)
    task = named_task("classification").of_model(model.labels, None)
    lock = threading.Lock()
    app = FastAPI()

    @app.get("/ping")
    def ping() -> None:
        """The server answers."""

    @app.post("/invocations")
    def invocations(request: dict[str, str]) -> dict[str, Any]:
        """Answer one text."""
        with lock:
            (answer,) = predict(model, task, tokenizer, [Sentence(request["text"], model.labels[0])])
        return answer

    return app


def main() -> None:
    """Serve until told to stop."""
    parser = command_line(str(__doc__))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="minilm-sst2", help="a fine-tuned classifier")
    options = parser.parse_args()
    uvicorn.run(application(options.model), port=options.port, log_level="warning")


if __name__ == "__main__":
    main()
