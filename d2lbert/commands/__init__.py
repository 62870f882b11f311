"""The commands of ``d2lbert``, one module for each, and their options, made from the settings."""
