"""What the OpenAPI document says: bodies, answers, refusals, and the names of the models that are served."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from d2lbert.deploy.server import formats

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": text,
        "content": {
            "application/json": {
                "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
            }
        },
    }
    for status, text in {
        400: "the body cannot be read",
        404: "there is no such model",
        406: "no answer in a type that the client accepts",
        408: "the body did not arrive in time",
        409: "there is a model of this name",
        413: "too large",
        415: "the type of the body is not known",
        422: "a text cannot be answered",
        429: "too many texts wait",
        503: "not ready, or stopping",
        504: "no answer in time",
        507: "no memory for one more model",
    }.items()
}
_NAME = "ModelName"
_MODEL = {"$ref": f"#/components/schemas/{_NAME}"}
_WORDS: dict[str, Any] = {"type": "string", "pattern": r"\S"}
_SHAPE: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1}
# What is given together; a model reads one of them, and says so to whoever sends another.
_GIVEN: tuple[dict[str, Any], ...] = (
    {"text": _WORDS},
    {"text": _WORDS, "pair": _WORDS},
    {"text": _WORDS, "choices": {"type": "array", "items": _WORDS, "minItems": 2}},
    {"question": _WORDS, "context": _WORDS},
)
_TEXT: dict[str, Any] = {
    "anyOf": [
        {
            "type": "object",
            "properties": {**given, "model": _MODEL},
            "required": list(given),
            "additionalProperties": False,
        }
        for given in _GIVEN
    ]
}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT, "minItems": 1}
_INSTANCES: dict[str, Any] = {
    "type": "object",
    "properties": {"instances": _TEXTS, "model": _MODEL},
    "required": ["instances"],
    "additionalProperties": False,
}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            formats.JSON: {
                "schema": {"anyOf": [_TEXT, _TEXTS, _INSTANCES]},
                "example": {"text": "a warm and funny film"},
            },
            formats.LINES: {
                "schema": {
                    "type": "string",
                    "description": "a JSON object a line, with the fields of a text; also as application/jsonl, "
                    "application/x-jsonlines and application/x-ndjson",
                },
                "example": '{"text": "a warm and funny film"}\n{"text": "dull from start to end"}\n',
            },
            formats.CSV: {
                "schema": {"type": "string", "description": "a text a line, beside it a second one or choices"},
                "example": "a warm and funny film\ndull from start to end\n",
            },
        },
    }
}
_ANSWER: dict[str, Any] = {
    "type": "object",
    "anyOf": [{"required": [name]} for name in ("label", "tags", "score", "answer", "choice")],
}
_PREDICTIONS: dict[str, Any] = {
    "type": "object",
    "properties": {"predictions": {"type": "array", "items": _ANSWER, "minItems": 1}},
    "required": ["predictions"],
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "an answer to one text, or to each of many, in their order",
        "content": {
            formats.JSON: {"schema": {"anyOf": [_ANSWER, _PREDICTIONS]}},
            formats.LINES: {"schema": {"type": "string", "description": "a JSON object for each text, one a line"}},
            formats.CSV: {"schema": {"type": "string", "description": "a line for each text"}},
        },
    },
    **ERRORS,
}


def _tensors(*names: str) -> dict[str, Any]:
    """Return what the tensors of a request are that must have these names, in any order, and equal lengths."""
    tensor = {
        "type": "object",
        "properties": {
            "name": {"enum": list(names)},
            "datatype": {"enum": ["BYTES"]},
            "shape": {**_SHAPE, "maxItems": 2, "description": "the number of texts, and perhaps 1"},
            "data": {"type": "array", "items": _WORDS, "minItems": 1},
        },
        "required": ["name", "datatype", "shape", "data"],
    }
    return {"type": "array", "items": tensor, "minItems": len(names), "maxItems": len(names)}


INFER: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            formats.JSON: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "inputs": {
                            "anyOf": [_tensors("text"), _tensors("text", "pair"), _tensors("question", "context")]
                        },
                    },
                    "required": ["inputs"],
                },
                "example": {
                    "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a warm and funny film"]}]
                },
            }
        },
    }
}
_PREDICTION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"enum": ["prediction"]},
        "datatype": {"enum": ["BYTES"]},
        "shape": {**_SHAPE, "maxItems": 1},
        "data": {"type": "array", "items": {"type": "string", "description": "an answer in JSON"}, "minItems": 1},
    },
    "required": ["name", "datatype", "shape", "data"],
}
INFERRED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "an answer to each text, in their order",
        "content": {
            formats.JSON: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "model_name": _MODEL,
                        "id": {"type": "string"},
                        "outputs": {"type": "array", "items": _PREDICTION, "minItems": 1, "maxItems": 1},
                    },
                    "required": ["model_name", "outputs"],
                }
            }
        },
    },
    **ERRORS,
}


def text_of_type(media_type: str) -> dict[int | str, dict[str, Any]]:
    """Return what the document says of an answer that is a text."""
    return {200: {"description": "a text", "content": {media_type: {"schema": {"type": "string"}}}}}


def with_models(document: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a copy of the document in which every name of a model is one of those that are served now.

    Args:
        document: as FastAPI makes it, the same at every time.
        names: of all models; where there are none yet, a name may be any text.
    """
    document = copy.deepcopy(document)
    one_of_them = {"enum": list(names)} if names else {}
    document.setdefault("components", {}).setdefault("schemas", {})[_NAME] = {"type": "string", **one_of_them}
    for operations in document["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] in ("name", "model"):
                    parameter["schema"] = _MODEL
    return document
