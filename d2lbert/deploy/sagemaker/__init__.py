"""SageMaker: what a container of one's own must do to train and to serve there, and the calls that put it to work."""
