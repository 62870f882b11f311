"""The command ``d2lbert models``: list the pretrained models."""

from __future__ import annotations

from d2lbert.zoo.folders import describe_models


def list_models() -> None:
    """Show every pretrained model: name and data set, size, where it is, licence, and what to know of it.

    The first column is what --model takes. A model of the hub is downloaded when it is first used.
    """
    rows = describe_models()
    width = max(len(row["label"]) for row in rows)
    for row in rows:
        size = f"{row['megabytes']:,} MB" if row["megabytes"] else "-"
        note = f"  {row['note']}" if row["note"] else ""
        print(f"{row['label']:{width}} {size:>9}  {row['where']:13} [{row['licence']}]{note}")
