"""From a trained model to one that is used: served to others."""
