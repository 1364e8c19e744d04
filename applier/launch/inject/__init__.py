"""A folder that `energyopt run` puts in front of PYTHONPATH: Python imports its `sitecustomize` at every start."""

__all__ = ["sitecustomize"]
