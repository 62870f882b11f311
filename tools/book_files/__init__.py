"""The whole book as one file: PDF and EPUB, from the chapters that ``make book`` has run."""
