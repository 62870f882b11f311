"""SICK, pairs of sentences: entailment, contradiction or neither: MiniLM, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.sick    # needs D2LBERT_DATA for the real set; twenty minutes
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("sick", __doc__)
