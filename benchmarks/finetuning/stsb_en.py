"""STS-B, pairs of sentences with a score of likeness: MiniLM, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.stsb_en    # needs D2LBERT_DATA for the real set; twenty minutes
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("stsb_en", __doc__)
