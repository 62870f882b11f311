"""Readers of files: one generator for each format."""
