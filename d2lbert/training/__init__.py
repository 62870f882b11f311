"""What the training loops of both editions share. It needs no framework."""
