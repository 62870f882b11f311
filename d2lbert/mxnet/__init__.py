"""The Apache MXNet edition: the file names and public names of :mod:`d2lbert.torch`, where it has the topic.

MXNet is optional and its development has ended (Apache Attic, 2023). This module readies NumPy for it, then imports it,
and lets it use every processor.
"""

import importlib

from d2lbert.errors import UserError
from d2lbert.mxnet import numpy_compat, openmp


class MxnetMissing(UserError, ImportError):
    """MXNet cannot be imported. An ``ImportError`` as well, so that code can ask for MXNet in the usual way."""


numpy_compat.install()
try:
    with openmp.all_processors():
        importlib.import_module("mxnet")
except ImportError as error:
    raise MxnetMissing(
        f"the MXNet edition needs mxnet 1.9.1 ({error}): run pip install --no-deps mxnet==1.9.1, "
        "then pip install requests 'graphviz<0.9' setuptools"
    ) from None

# These import mxnet, which is ready only now: they cannot stand at the top, where E402 wants them.
from d2lbert.mxnet.bert import BertModel  # noqa: E402
from d2lbert.mxnet.elmo import Elmo  # noqa: E402
from d2lbert.mxnet.gpt import Gpt  # noqa: E402
from d2lbert.mxnet.pretraining import BertForPretraining  # noqa: E402
from d2lbert.mxnet.seq2seq import Seq2Seq  # noqa: E402
from d2lbert.mxnet.transformer import Transformer  # noqa: E402

__all__ = ["BertForPretraining", "BertModel", "Elmo", "Gpt", "MxnetMissing", "Seq2Seq", "Transformer"]
