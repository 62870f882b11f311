"""Files on disk: atomic writes, checkpoints, downloads, and where files are kept."""
