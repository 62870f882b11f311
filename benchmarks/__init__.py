"""What was measured, and how: ``benchmarks/<topic>/<run>.py`` writes ``results/<topic>/<run>.json``.

Each is run from the root of the checkout as a module: ``python -m benchmarks.<topic>.<run>``; ``--help`` says what it
does. What several share stands here, beside the folders of the topics.
"""
