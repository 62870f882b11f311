"""A server of fine-tuned models: one encoder for all tasks, texts of all requests in shared batches."""
