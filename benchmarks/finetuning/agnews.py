"""AG News, the topic of a news item, one of four: MiniLM, one seed.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.agnews --seeds 0    # needs D2LBERT_DATA for the real set; half an hour
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("agnews", __doc__)
