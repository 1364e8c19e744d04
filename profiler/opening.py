"""The bench that a request means: a simulated GPU, or a real one with torch."""

from collections.abc import Callable, Iterator
from typing import Any

from energyopt.applier.devices.interface import Device
from energyopt.applier.devices.site_lock import WithSiteLock, parse_site_lock
from energyopt.profiler.benches.interface import Bench
from energyopt.profiler.benches.torch_import import import_torch
from energyopt.profiler.distributed.launch import Launch
from energyopt.profiler.workloads.interface import Kernel, Workload
from energyopt.schemas.errors import ClockControlError, DeviceError, RequestError, WorkloadError

SIMULATED = "sim:"
NVML = "nvml:"
TRY_SIMULATED = "use --device sim:a100-sxm4-80gb to try energyopt without a GPU"


def is_simulated(device: str) -> bool:
    """Whether a device's name means a simulated GPU."""
    return device.startswith(SIMULATED)


def open_board(
    device: str, launch: Launch | None, *, kernels_on: str, site_lock: str | None = None
) -> Device:
    """The real board that this process measures: its own one of a node's, where several were started.

    Where kernels run on GPUs, torch is imported first: it knows which board each of CUDA's numbers means. A lock
    that the user names is what the board will be given back with.

    Raises:
        DeviceError: no driver, no such board.
        RequestError: no such form, or one board for several processes.
    """
    lock_mhz = parse_site_lock(site_lock)
    if device != "auto" and not device.startswith(NVML):
        raise RequestError(f"--device {device!a} is none of auto, nvml:UUID, nvml:N and sim:NAME")
    if kernels_on == "cuda":
        import_torch()
    from energyopt.applier.devices.nvml.driver import NoGpuError

    try:
        board = _open_nvml(device, launch)
    except NoGpuError as error:
        raise DeviceError(f"{error}; {TRY_SIMULATED}") from error
    return board if lock_mhz is None else WithSiteLock(board, lock_mhz)


def _open_nvml(device: str, launch: Launch | None) -> Device:
    from energyopt.applier.devices.nvml import open_nvml

    local = launch is not None and launch.size > 1
    if device == "auto":
        return open_nvml(str(launch.cuda_number) if launch is not None and local else "auto")
    if local:
        raise RequestError(
            f"--device {device} is one board for all ranks; use auto, which gives each its own"
        )
    return open_nvml(device.removeprefix(NVML))


def open_simulated(device: str, launch: Launch | None, power_limit_w: float | None, seed: int) -> Bench:
    """A simulated bench; every rank gets a board of its own.

    Raises:
        DeviceError: no such simulated GPU.
    """
    from energyopt.profiler.benches.simulated import open_simulated_bench

    name, rank = device.removeprefix(SIMULATED), 0 if launch is None else launch.rank
    return open_simulated_bench(name, power_limit_w=power_limit_w, seed=seed + rank, number=rank)


def open_torch(
    board: Device,
    workload: Workload,
    *,
    kernels_on: str,
    cuda_number: int,
    groups: Callable[[Any], Any] | None,
    peer: Any,
) -> Bench:
    """Torch on the GPU that `board` is, or on the CPU."""
    from energyopt.profiler.benches.torch_bench import open_torch_bench

    where = "cpu" if kernels_on == "cpu" else f"cuda:{_cuda_number(board.identity.uuid, cuda_number)}"
    dtype = str(workload.settings.get("dtype", "bfloat16"))
    return open_torch_bench(board, torch_device=where, dtype=dtype, groups=groups, peer=peer)


def sm_count(device: str, board: Device, *, kernels_on: str, cuda_number: int) -> int | None:
    """How many SMs the GPU has that kernels run on; None where nothing tells."""
    if is_simulated(device):
        from energyopt.profiler.simulation.gpus import GPUS

        return GPUS[device.removeprefix(SIMULATED)].throughput.sms
    if kernels_on == "cpu":
        return None
    cuda, number = import_torch().cuda, _cuda_number(board.identity.uuid, cuda_number)
    if number >= cuda.device_count():
        return None
    return int(cuda.get_device_properties(number).multi_processor_count)


def _cuda_number(uuid: str, otherwise: int) -> int:
    """CUDA's number of a board, by its UUID; `otherwise` where torch gives no UUIDs."""
    cuda = import_torch().cuda
    wanted = uuid.removeprefix("GPU-").lower()
    for number in range(cuda.device_count()):
        if str(getattr(cuda.get_device_properties(number), "uuid", "")).lower() == wanted:
            return number
    return otherwise


def check_simulable(workload: Workload) -> None:
    """Refuse code whose work is not stated: a simulated GPU runs nothing, it computes what the work would cost.

    Raises:
        WorkloadError: a kernel states neither operations nor bytes.
    """
    for kernel in _single(workload):
        if kernel.communication is None and kernel.flops == 0 and kernel.memory_bytes == 0:
            raise WorkloadError(
                f"{workload.name}: nothing states what {kernel.name} computes and moves, so it is not simulated: "
                "measure it on a real GPU, or return a Workload whose kernels have flops and memory_bytes"
            )


def _single(workload: Workload) -> Iterator[Kernel]:
    """All kernels, those inside of partitions that are measured as a whole among them."""
    for kernel in workload.kernels():
        if kernel.overlap is None:
            yield kernel
        else:
            yield from (use.kernel for use in kernel.overlap.compute)


def check_able(device: Device, *, sets_clocks: bool) -> None:
    """Refuse a board that cannot be measured, or clocked where that is asked for.

    Raises:
        DeviceError: neither energy nor power can be read.
        ClockControlError: clocks cannot be set; says why and which ways there are.
    """
    can, name = device.capabilities, f"{device.identity.name} ({device.identity.uuid})"
    if can.energy_counter is not None and can.power is not None:
        raise DeviceError(
            f"{name} gives neither energy ({can.energy_counter}) nor power ({can.power}); nothing can be measured"
        )
    if sets_clocks and can.set_clocks is not None:
        remedy = can.remedies.get("set_clocks", "use --clocks current to measure at the current clock alone")
        raise ClockControlError(f"{name}: clocks cannot be set ({can.set_clocks}): {remedy}")
