"""energyopt: lower the energy of large-model training without slowing it."""

__version__ = "0.1.0"
