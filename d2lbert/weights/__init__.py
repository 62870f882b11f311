"""Files of weights: read and write safetensors, and map our parameter names to those of other libraries."""
