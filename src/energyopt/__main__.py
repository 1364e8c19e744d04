"""`python -m energyopt` is the command `energyopt`."""

from energyopt.cli.main import run

run()
