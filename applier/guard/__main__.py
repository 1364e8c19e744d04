"""The guard process: `python -m energyopt.applier.guard`, started by `process.start_guard` and by nobody else."""

import sys

from energyopt.applier.guard.watch import main

sys.exit(main())
