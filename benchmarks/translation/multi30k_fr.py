"""Multi30k, English to French: the Transformer beside the attentional GRU, as benchmarks/translation/multi30k.py.

The captions, the settings and the scores are those of English to German, so that the two can stand side by side; the
result of that language has 8,000 steps. With --resume a stopped run goes on from its last checkpoint. Two processes may
train one model each (--models); the command for both, with --resume, then scores them and writes the result.

    python -m benchmarks.translation.multi30k_fr --steps 8000    # needs D2LBERT_DATA or a network; hours on two cores
    python -m benchmarks.translation.multi30k_fr --steps 20 --evaluate-every 10 --test 40 --result translation/trial
"""

from benchmarks.translation.multi30k import measure

if __name__ == "__main__":
    measure("multi30k_fr", "English to French", __doc__)
