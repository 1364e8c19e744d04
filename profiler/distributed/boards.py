"""What ranks must know of each other's boards before they measure together."""

import platform

from energyopt.applier.devices.interface import Device
from energyopt.profiler.distributed.launch import Launch
from energyopt.profiler.distributed.torch_team import TorchTeam
from energyopt.profiler.measurement.agreement import AgreedError
from energyopt.profiler.opening import sm_count
from energyopt.profiler.request import Request


def check_distinct(team: TorchTeam, board: Device, *, able: bool) -> None:
    """Two ranks on one board would each count all of its energy."""
    ranks: dict[tuple[str, str], int] = {}
    for rank, found in enumerate(team.gather([platform.node(), board.identity.uuid] if able else None)):
        if found is not None and (earlier := ranks.setdefault(tuple(found), rank)) != rank:
            raise AgreedError(
                f"rank {earlier} and rank {rank} were given the same GPU, {found[1]} on {found[0]}: start one "
                "process per GPU"
            )


def check_alike(team: TorchTeam, board: Device, *, able: bool) -> None:
    """Boards whose profiles could not be joined are found before hours of measuring."""
    known = board.identity
    mine = (
        [known.name, known.kind, known.scope, known.power_limit_w, known.memory_clock_mhz] if able else None
    )
    found = [(rank, one) for rank, one in enumerate(team.gather(mine)) if one is not None]
    for rank, one in found:
        if one != found[0][1]:
            raise AgreedError(
                f"rank {rank} has another board than rank {found[0][0]} (name, kind, scope, power limit, memory "
                f"clock): {one}, not {found[0][1]}"
            )


def fewest_sms(request: Request, launch: Launch, team: TorchTeam, board: Device | None) -> int | None:
    """SMs of the smallest GPU among the ranks, for all measure the same; None where no rank knows.

    board: this rank's; None where it cannot be used.
    """
    sms = None
    if board is not None:
        number = launch.cuda_number
        sms = sm_count(request.device, board, kernels_on=request.kernels_on, cuda_number=number)
    return min((one for one in team.gather(sms) if one is not None), default=None)
