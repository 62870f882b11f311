"""A classifier behind LitServe: the other side of ``benchmarks/deployment/serving.py``.

The model, its precision and its packed rows are those of our server; only the server is another.

    python -m benchmarks.lit_server --port 8000 --model minilm-sst2    # needs: pip install litserve
"""

from __future__ import annotations

from typing import Any

import litserve

from benchmarks.command_line import command_line
from d2lbert.data import Sentence
from d2lbert.deploy.exported import load_trained
from d2lbert.tasks.table import named_task
from d2lbert.torch.training.evaluation import predict

BATCH = 32
WAIT = 0.005  # seconds for a batch to fill


class Classifier(litserve.LitAPI):
    """Requests {"text": ...}; answers as our server gives them."""

    def __init__(self, source: str) -> None:
        super().__init__(max_batch_size=BATCH, batch_timeout=WAIT, api_path="/invocations")
        self.source = source

    def setup(self, device: str) -> None:
        self.model, self.tokenizer = load_trained(self.source)
        self.task = named_task("classification").of_model(self.model.labels, None)

    def decode_request(self, request: dict[str, str]) -> str:
        return request["text"]

    def predict(self, texts: list[str]) -> list[dict[str, Any]]:
        examples = [Sentence(text, self.model.labels[0]) for text in texts]  # the label is not read
        return predict(self.model, self.task, self.tokenizer, examples)


def main() -> None:
    """Serve until told to stop."""
    parser = command_line(str(__doc__))
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="minilm-sst2", help="a fine-tuned classifier")
    options = parser.parse_args()
    server = litserve.LitServer(Classifier(options.model), accelerator="cpu", devices=1, healthcheck_path="/ping")
    server.run(host="127.0.0.1", port=options.port, log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    main()
