"""Where `energyopt run` is on the path of a rank, but a launcher did not pass its settings on."""

import os

from energyopt.applier.runtime.ranks import local_rank, rank
from energyopt.applier.runtime.reports import Reports

SAID = "ENERGYOPT_LOST_SAID"


def warn_if_lost() -> None:
    """Say so once on each node, by its first rank: what that starts finds in its environment that it was said.

    A mode of off is somebody's decision, as is a plan that is set to nothing.
    """
    here = os.environ
    if "ENERGYOPT_PLAN" in here or here.get("ENERGYOPT_MODE") == "off" or SAID in here or local_rank() != 0:
        return
    here[SAID] = "1"
    Reports(rank()).once(
        "lost",
        "the settings of energyopt run did not come through to this node, so training goes on without a plan: the "
        "launcher passes PYTHONPATH on but not ENERGYOPT_*; forward those (deepspeed: lines ENERGYOPT_PLAN=... and "
        "so on in ~/.deepspeed_env; mpirun: -x ENERGYOPT_PLAN and so on; srun: --export=ALL)",
    )
