"""The training loops of the MXNet edition: Gluon's trainer, autograd's record, and what both editions share."""
