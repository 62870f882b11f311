"""CoNLL-2003, names in news: MiniLM, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.conll2003    # needs D2LBERT_DATA for the real set; an hour and a half
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("conll2003", __doc__)
