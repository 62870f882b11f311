"""TREC, what kind of answer a question asks for, one of fifty: MiniLM, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.trec_fine    # needs D2LBERT_DATA for the real set; half an hour
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("trec_fine", __doc__)
