"""WNUT-17, new names in posts: MiniLM, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.wnut17    # needs D2LBERT_DATA for the real set; an hour
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("wnut17", __doc__)
