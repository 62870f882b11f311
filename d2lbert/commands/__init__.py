"""The commands of ``d2lbert``, one module for each."""
