"""A profile by several ranks: each measures its own board and writes a shard, and rank 0 joins them."""

import base64
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from energyopt.applier.devices.interface import Device
from energyopt.profiler.benches.blind import BlindDevice
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.clocks import CURRENT
from energyopt.profiler.distributed.groups import ProcessGroups
from energyopt.profiler.distributed.launch import Launch
from energyopt.profiler.distributed.merging import merge
from energyopt.profiler.distributed.placement import Placement, part_of, place
from energyopt.profiler.distributed.torch_team import TorchTeam, join, leave
from energyopt.profiler.distributed.waiting import Peer
from energyopt.profiler.measurement.run import Job, assist
from energyopt.profiler.measurement.settings import Settings
from energyopt.profiler.opening import check_able, is_simulated, open_board, open_simulated, open_torch
from energyopt.profiler.profiling import Voice, measure_and_write, open_partial, settings_for
from energyopt.profiler.request import Request
from energyopt.profiler.site_lock import refuse_unknown_lock
from energyopt.profiler.workloads.communication import communicates
from energyopt.profiler.workloads.interface import Workload
from energyopt.schemas.errors import DeviceError, MeasurementError, RequestError
from energyopt.schemas.profile import Profile, read_profile, write_profile


def profile_together(request: Request, workload: Workload, launch: Launch, voice: Voice) -> Profile | None:
    """Measure with all ranks; the whole profile on rank 0, None on the others.

    Raises:
        EnergyoptError: a subclass says what cannot be measured, set, read or written, and on which rank.
    """
    if request.skip_communication and communicates(workload):
        raise RequestError("--skip-communication is for one process alone; these ranks can communicate")
    placement = place(launch.rank, launch.size, workload)
    heard = _voice_of(launch.rank, voice)
    with _joined():
        team, peers = _teams(launch, workload, placement)
        board, problem = _board(request, launch, team)
        with closing(_bench(request, workload, launch, board)) as bench:
            job = Job(
                bench=bench,
                workload=part_of(workload, placement.stage),
                settings=_common_settings(request, board, team, heard),
                progress=heard.progress,
                say=heard.say,
                warn=heard.warn,
                team=team,
                peers=peers,
                able=problem is None,
                check_first=refuse_unknown_lock if request.site_lock is None else None,
            )
            shard = _measure(job, request, launch.rank)
            return _join_shards(request, team, shard, heard)


@contextmanager
def _joined() -> Iterator[None]:
    join()
    try:
        yield
    finally:
        leave()


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
    for first in range(0, launch.size, workload.gpus_per_stage):
        members = tuple(range(first, first + workload.gpus_per_stage))
        group = dist.new_group(list(members), backend="gloo")
        if members == placement.peers:
            mine = group
    return everyone, TorchTeam(placement.peers, mine)


def _board(request: Request, launch: Launch, team: TorchTeam) -> tuple[Device, str | None]:
    """This rank's board, or one that tells nothing where the request allows that; all ranks agree to go on.

    Raises:
        DeviceError: this rank's board cannot be used.
        MeasurementError: another rank's cannot.
    """
    board, failure = _try_board(request, launch)
    problems = team.gather(None if failure is None else str(failure))
    failed = [f"rank {rank}: {problem}" for rank, problem in enumerate(problems) if problem is not None]
    if not failed:
        return board, None
    if len(failed) == team.size or not request.allow_partial:
        if failure is not None:
            raise failure
        more = f" (and {len(failed) - 1} more ranks)" if len(failed) > 1 else ""
        raise MeasurementError(
            f"{failed[0]}{more}; nothing was set or measured; --allow-partial goes on without it"
        )
    return board, problems[team.rank]


def _try_board(request: Request, launch: Launch) -> tuple[Device, DeviceError | None]:
    try:
        if is_simulated(request.device):
            return open_simulated(
                request.device, launch, request.power_limit_w, request.settings.seed
            ).device, None
        board = open_board(request.device, launch, kernels_on=request.kernels_on, site_lock=request.site_lock)
        check_able(board, sets_clocks=request.clocks != CURRENT)
    except DeviceError as error:
        return BlindDevice(str(error)), error
    return board, None


def _bench(request: Request, workload: Workload, launch: Launch, board: Device) -> Bench:
    if is_simulated(request.device):
        return open_simulated(request.device, launch, request.power_limit_w, request.settings.seed)
    import torch
    import torch.distributed as dist

    cuda = request.kernels_on == "cuda"
    where = torch.device("cuda", launch.local_rank) if cuda else torch.device("cpu")
    group: Any = dist.new_group(backend="nccl" if cuda else "gloo")
    peer = Peer(launch.rank, launch.size, group, device=where)
    return open_torch(
        board,
        workload,
        kernels_on=request.kernels_on,
        local_rank=launch.local_rank,
        groups=ProcessGroups(workload, launch.size, cuda=cuda),
        peer=peer if peer.exists else None,
    )


def _common_settings(request: Request, board: Device, team: TorchTeam, voice: Voice) -> Settings:
    """Settings with the clocks of a rank that has any; boards whose clocks differ are no peers."""
    settings = None if isinstance(board, BlindDevice) else settings_for(request, board, voice)
    lists = [
        one for one in team.gather(None if settings is None else list(settings.clocks_mhz)) if one is not None
    ]
    if any(one != lists[0] for one in lists):
        raise MeasurementError("the ranks' boards support different clocks; name common ones with --clocks")
    return replace(request.settings, clocks_mhz=tuple(lists[0]))


def _measure(job: Job, request: Request, rank: int) -> Profile | None:
    path = shard_path(request.output, rank)
    if job.able:
        return measure_and_write(job, request, path, rank)
    with open_partial(job, request, path) as partial:
        assist(job, partial)
        partial.discard()
    return None


def shard_path(output: Path, rank: int) -> Path:
    """Where a rank writes its part: profile.parquet's is profile.rank3.parquet."""
    return output.with_name(f"{output.stem}.rank{rank}{output.suffix}")


def _join_shards(request: Request, team: TorchTeam, shard: Profile | None, voice: Voice) -> Profile | None:
    """Send the shards to rank 0, which merges them: nodes need no common file system."""
    content = None
    if shard is not None:
        content = base64.b64encode(shard_path(request.output, team.rank).read_bytes()).decode()
    contents = team.gather(content)
    if team.rank != 0:
        return None
    present = [(rank, one) for rank, one in enumerate(contents) if one is not None]
    merged = merge([_decode(one) for _, one in present], [f"rank {rank}" for rank, _ in present])
    for warning in merged.warnings:
        voice.warn(warning)
    write_profile(request.output, merged.profile)
    return merged.profile


def _decode(content: str) -> Profile:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shard.parquet"
        path.write_bytes(base64.b64decode(content))
        return read_profile(path)
