"""The MXNet edition of every model, for Apache MXNet 1.9.1."""

from d2lbert.errors import UserError
from d2lbert.mxnet.numpy_compat import install

install()  # before the first import of mxnet
try:
    import mxnet as _mxnet  # noqa: F401
except ModuleNotFoundError as error:
    raise UserError(
        f"the MXNet edition needs the package {error.name}, which is not installed: "
        "run pip install --no-deps -r requirements/mxnet.txt"
    ) from None

from d2lbert.mxnet.bert import BertModel  # noqa: E402

__all__ = ["BertModel"]
