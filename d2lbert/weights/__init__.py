"""Files of weights: safetensors in and out, and the tables from our parameter names to those of others."""
