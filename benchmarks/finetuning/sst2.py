"""SST-2, sentences of film reviews, positive or negative: MiniLM, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.sst2    # needs D2LBERT_DATA for the real set; a quarter of an hour
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("sst2", __doc__)
