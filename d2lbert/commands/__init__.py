"""The commands of ``d2lbert``, and their options, which are made from the settings."""
