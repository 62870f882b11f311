"""The training loops, and the parts that they share."""
