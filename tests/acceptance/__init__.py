"""Claims about the pipeline on Kubernetes, one a file; the docstring of a test is the claim."""
