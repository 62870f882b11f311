"""TREC, what kind of answer a question asks for, one of fifty: MiniLM, one seed.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.trec_fine --seeds 0    # needs D2LBERT_DATA for the real set; half an hour
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("trec_fine", __doc__)
