"""What the OpenAPI document says of bodies and refusals."""

from __future__ import annotations

from typing import Any

from d2lbert.deploy.server import formats

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"description": text, "content": {"application/json": {"schema": {"type": "object"}}}}
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
_TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "pair": {"type": "string"},
        "choices": {"type": "array", "items": {"type": "string"}},
        "question": {"type": "string"},
        "context": {"type": "string"},
        "model": {"type": "string"},
    },
    "additionalProperties": False,
}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            formats.JSON: {
                "schema": {
                    "anyOf": [
                        _TEXT,
                        {"type": "array", "items": _TEXT, "minItems": 1},
                        {
                            "type": "object",
                            "properties": {
                                "instances": {"type": "array", "items": _TEXT, "minItems": 1},
                                "model": {"type": "string"},
                            },
                            "required": ["instances"],
                            "additionalProperties": False,
                        },
                    ]
                },
                "example": {"text": "a warm and funny film"},
            }
        },
    }
}
_TENSOR: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"enum": ["text", "pair", "question", "context"]},
        "datatype": {"enum": ["BYTES"]},
        "shape": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        "data": {"type": "array", "items": {"type": "string"}, "minItems": 1},
    },
    "required": ["name", "datatype", "shape", "data"],
}
INFER: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            formats.JSON: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string"},
                        "inputs": {"type": "array", "items": _TENSOR, "minItems": 1},
                    },
                    "required": ["inputs"],
                }
            }
        },
    }
}
