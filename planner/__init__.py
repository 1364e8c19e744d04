"""Solving for the energy-time frontier of a training iteration."""

__all__: list[str] = []
