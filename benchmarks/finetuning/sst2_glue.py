"""SST-2 as GLUE has it, phrases with their punctuation: MiniLM, three seeds, scored on GLUE's dev set.

The plan, and what is scored, stand in ``benchmarks/plans.py``: 872 whole sentences are scored, once; some of the
training sentences choose the epoch, and no part of them is trained on.

    python -m benchmarks.finetuning.sst2_glue    # needs D2LBERT_DATA for the real set; two hours on one core
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("sst2_glue", __doc__)
