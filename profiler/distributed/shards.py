"""Each rank's part of a profile: where it is kept, and how rank 0 gets all of them."""

import base64
import tempfile
from collections.abc import Iterator
from pathlib import Path

from energyopt.profiler.distributed.merging import merge
from energyopt.profiler.measurement.job import Job
from energyopt.schemas.profile import Level, Profile, read_profile, write_profile


def shard_path(output: Path, rank: int) -> Path:
    """Where a rank writes its part: profile.parquet's is profile.rank3.parquet."""
    return output.with_name(f"{output.stem}.rank{rank}{output.suffix}")


def join_shards(job: Job, output: Path, content: str | None) -> Profile | None:
    """Send the shards to rank 0, which merges them: nodes need no common file system."""
    contents = job.team.gather(content)
    if job.team.rank != 0:
        return None
    present = [(rank, one) for rank, one in enumerate(contents) if one is not None]
    merged = merge([_decode(one) for _, one in present], [f"rank {rank}" for rank, _ in present])
    for warning in (*merged.warnings, *lacking(job, merged.profile)):
        job.warn(warning)
    write_profile(output, merged.profile)
    return merged.profile


def lacking(job: Job, profile: Profile) -> Iterator[str]:
    """Stages whose ranks were all left out."""
    measured = {row.stage for row in profile.rows if row.level is Level.OP}
    if missing := sorted({*range(job.workload.stages)} - measured):
        yield f"no rank could measure stage {', '.join(map(str, missing))}: the profile holds nothing of it"


def _decode(content: str) -> Profile:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shard.parquet"
        path.write_bytes(base64.b64decode(content))
        return read_profile(path)
