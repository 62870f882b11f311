"""RTE, pairs of texts of which the first entails the second or not: MiniLM, after MNLI, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.rte    # needs D2LBERT_DATA for the real set; three quarters of an hour
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("rte", __doc__)
