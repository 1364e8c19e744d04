"""A profile by several ranks: each measures its own board and writes a shard, and rank 0 joins them."""

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Any

from energyopt.applier.devices.interface import Device
from energyopt.profiler.benches.blind import BlindDevice
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.clocks import CURRENT
from energyopt.profiler.distributed.boards import check_alike, check_distinct, fewest_sms
from energyopt.profiler.distributed.groups import ProcessGroups
from energyopt.profiler.distributed.launch import Launch
from energyopt.profiler.distributed.placement import Placement, part_of, place
from energyopt.profiler.distributed.shards import join_shards, shard_path
from energyopt.profiler.distributed.torch_team import TorchTeam, ended_by_signals, join, leave
from energyopt.profiler.distributed.waiting import Peer
from energyopt.profiler.measurement.agreement import (
    AgreedError,
    SetAsideError,
    Step,
    agree_to_go_on,
    try_together,
)
from energyopt.profiler.measurement.job import Job
from energyopt.profiler.measurement.partial import Partial
from energyopt.profiler.measurement.run import assist, attend, measure
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.opening import check_able, is_simulated, open_board, open_simulated, open_torch
from energyopt.profiler.profiling import (
    Voice,
    job_for,
    look_around,
    open_partial,
    profile_or_discard,
    settings_for,
    suited,
)
from energyopt.profiler.request import Request
from energyopt.profiler.search.budgeting import check_search
from energyopt.profiler.workloads.communication import communicates
from energyopt.profiler.workloads.interface import Workload
from energyopt.schemas.errors import DeviceError, EnergyoptError, RequestError
from energyopt.schemas.profile import Profile, write_profile


def profile_together(request: Request, workload: Workload, launch: Launch, voice: Voice) -> Profile | None:
    """Measure with all ranks; the whole profile on rank 0, None on the others.

    Raises:
        EnergyoptError: a subclass says what cannot be measured, set, read or written, and on which rank.
    """
    if request.skip_communication and communicates(workload):
        raise RequestError("--skip-communication is for one process alone; these ranks can communicate")
    placement = place(launch.rank, launch.size, workload)
    heard = _voice_of(launch.rank, voice)
    with _joined(), _naming(launch.rank):
        with ended_by_signals():
            team, peers = _teams(launch, workload, placement)
        simulated = _simulated(request, launch)
        board, able = _board(request, launch, team, simulated, heard)
        with ExitStack() as stack:
            stack.enter_context(closing(board))
            workload = suited(
                request, workload, board, fewest_sms(request, launch, team, board if able else None)
            )
            bench = stack.enter_context(closing(simulated or _bench(request, workload, launch, board)))
            settings = _common_settings(request, board, team, heard)
            check_search(workload, settings)
            own = job_for(request, bench, part_of(workload, placement.stage), settings, heard)
            job = replace(own, team=team, peers=peers, able=able, allow_partial=request.allow_partial)
            return _measure(job, request, launch.rank)


@contextmanager
def _joined() -> Iterator[None]:
    join()
    try:
        yield
    finally:
        leave()


@contextmanager
def _naming(rank: int) -> Iterator[None]:
    """An error that not all ranks agreed on says whose it is."""
    try:
        yield
    except AgreedError:
        raise
    except EnergyoptError as error:
        raise type(error)(f"rank {rank}: {error}") from error


def _voice_of(rank: int, voice: Voice) -> Voice:
    """Rank 0 speaks for all; the others only warn."""
    if rank == 0:
        return voice
    return Voice(
        progress=lambda _step, _share: None,
        say=lambda _text: None,
        warn=lambda text: voice.warn(f"rank {rank}: {text}"),
    )


def _teams(launch: Launch, workload: Workload, placement: Placement) -> tuple[TorchTeam, TorchTeam]:
    """All ranks, and those of this one's model-parallel group."""
    import torch.distributed as dist

    everyone = TorchTeam(tuple(range(launch.size)), dist.group.WORLD)
    mine = None
    for first in range(0, launch.size, workload.gpus_together):
        members = tuple(range(first, first + workload.gpus_together))
        group = dist.new_group(list(members), backend="gloo")
        if members == placement.peers:
            mine = group
    return everyone, TorchTeam(placement.peers, mine)


def _board(
    request: Request, launch: Launch, team: TorchTeam, simulated: Bench | None, voice: Voice
) -> tuple[Device, bool]:
    """This rank's board, and whether it can be used; where not, it tells nothing and the others go on without.

    Raises:
        AgreedError: a board cannot be used and the request does not allow to go on, or none can.
    """
    board, problem = (simulated.device, None) if simulated else _try_board(request, launch, voice)
    agree_to_go_on(team, problem, allow_partial=request.allow_partial)
    check_distinct(team, board, able=problem is None)
    return board, problem is None


def _simulated(request: Request, launch: Launch) -> Bench | None:
    if not is_simulated(request.device):
        return None
    return open_simulated(request.device, launch, request.power_limit_w, request.settings.seed)


def _try_board(request: Request, launch: Launch, voice: Voice) -> tuple[Device, str | None]:
    board = None
    try:
        board = open_board(request.device, launch, kernels_on=request.kernels_on, site_lock=request.site_lock)
        check_able(board, sets_clocks=request.clocks != CURRENT)
        look_around(request, board, voice, journal=launch.local_rank == 0)
    except DeviceError as error:
        if board is not None:
            board.close()
        return BlindDevice(str(error)), str(error)
    return board, None


def _bench(request: Request, workload: Workload, launch: Launch, board: Device) -> Bench:
    import torch
    import torch.distributed as dist

    cuda = request.kernels_on == "cuda"
    where = torch.device("cuda", launch.cuda_number) if cuda else torch.device("cpu")
    with ended_by_signals():
        group: Any = dist.new_group(backend="nccl" if cuda else "gloo")
        groups = ProcessGroups(workload, launch.size, cuda=cuda)
    peer = Peer(launch.rank, launch.size, group, device=where)
    return open_torch(
        board,
        workload,
        kernels_on=request.kernels_on,
        cuda_number=launch.cuda_number,
        groups=groups,
        peer=peer if peer.exists else None,
    )


def _common_settings(request: Request, board: Device, team: TorchTeam, voice: Voice) -> Settings:
    """Settings with the clocks of a rank that has any; boards whose clocks differ are no peers."""
    settings = None if isinstance(board, BlindDevice) else settings_for(request, board, voice)
    check_alike(team, board, able=settings is not None)
    lists = [
        one for one in team.gather(None if settings is None else list(settings.clocks_mhz)) if one is not None
    ]
    if any(one != lists[0] for one in lists):
        raise AgreedError("the ranks' boards support different clocks; name common ones with --clocks")
    return replace(request.settings, clocks_mhz=tuple(lists[0]))


def _measure(job: Job, request: Request, rank: int) -> Profile | None:
    """Measure and join; what this rank has measured is kept until the whole profile is written."""
    path = shard_path(request.output, rank)
    with ExitStack() as stack:
        partial = _agreed_record(job, lambda: stack.enter_context(open_partial(job, request, path)))
        shard = _shard(job, partial, rank)
        content = None
        if shard is not None:
            write_profile(path, shard)
            content = base64.b64encode(path.read_bytes()).decode()
        profile = join_shards(job, request.output, content)
        job.team.gather(None)
        partial.discard()
    return profile


def _agreed_record(job: Job, begin: Callable[[], Partial]) -> Partial:
    """Open the record, on all ranks or on none: also one that only helps keeps the plan."""
    return try_together(job.team, Step.FIRST_LOCK, begin, allow_partial=None)


def _shard(job: Job, partial: Partial, rank: int) -> Profile | None:
    """What this rank measured; None where it only helped the others."""
    if not job.able:
        attend(job)
        _help(job, partial, Step.FIRST_LOCK)
        return None
    try:
        measured = measure(job, partial)
        return try_together(
            job.team,
            Step.PROFILE,
            lambda: profile_or_discard(job, partial, measured, rank),
            allow_partial=job.allow_partial,
        )
    except SetAsideError as error:
        job.warn(f"this GPU is left out: {error}")
        if error.step is not Step.PROFILE:
            _help(replace(job, able=False), partial, error.step)
    return None


def _help(job: Job, partial: Partial, after: Step) -> None:
    """Take part in what the others do, to the end, on a rank that was given up at a step."""
    assist(job, partial, after)
    attend(job)
