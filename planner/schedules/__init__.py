"""Pipeline schedules: which operations every stage runs, in which order."""

from energyopt.planner.schedules.registry import SCHEDULES, build_schedule
from energyopt.planner.schedules.torch_csv import read_torch_csv

__all__ = ["SCHEDULES", "build_schedule", "read_torch_csv"]
