"""What energyopt promises about speed and quality, measured: `python -m benchmarks` from the project's root."""
