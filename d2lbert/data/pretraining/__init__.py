"""From plain text to the batches that a model is pretrained on."""
