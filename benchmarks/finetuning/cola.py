"""CoLA, sentences that are acceptable English or not: MiniLM, three seeds.

The plan, and what is scored, stand in ``benchmarks/plans.py``.

    python -m benchmarks.finetuning.cola    # needs D2LBERT_DATA for the real set; twenty minutes
"""

from benchmarks.plans import measure

if __name__ == "__main__":
    measure("cola", __doc__)
