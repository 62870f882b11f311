"""Files on disk: written whole or not at all, checkpoints, downloads, and where things lie."""
