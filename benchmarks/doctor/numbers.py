"""The five numbers that ``d2lbert doctor`` finds again on a user's machine.

python -m benchmarks.doctor.numbers
"""

from __future__ import annotations

from benchmarks.command_line import command_line
from benchmarks.record import Record
from d2lbert.torch.training.reproduction import NUMBERS


def main() -> None:
    """Compute the numbers and write ``results/doctor/numbers.json``."""
    command_line(__doc__).parse_args()
    record = Record("doctor/numbers", ["torch", "tokenizers", "numpy", "d2lbert"])
    record.write({name: {"value": compute(), "tolerance": share} for name, (compute, share) in NUMBERS.items()})


if __name__ == "__main__":
    main()
