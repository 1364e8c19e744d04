"""`python -m energyopt.cli`: the same as the command `energyopt`."""

from energyopt.cli.main import run

if __name__ == "__main__":
    run()
