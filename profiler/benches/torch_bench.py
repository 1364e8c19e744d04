"""Real kernels with torch: on a CUDA device, or on a CPU to try a workload out."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from energyopt.applier.devices.interface import Device
from energyopt.profiler.benches.cuda import CudaRunner
from energyopt.profiler.benches.interface import Poll, titled
from energyopt.profiler.benches.polling import now, sleep
from energyopt.profiler.benches.runners import Runner, Step, wait_for
from energyopt.profiler.benches.threads import ThreadRunner
from energyopt.profiler.benches.torch_import import import_torch
from energyopt.profiler.workloads.interface import Communication, Kernel
from energyopt.profiler.workloads.job import DTYPE_BYTES
from energyopt.profiler.workloads.user import describe
from energyopt.schemas.errors import DeviceError, EnergyoptError, WorkloadError

Groups = Callable[[Communication], Any]
"""Gives the process group of a communication kernel."""


class Peer(Protocol):
    """Another process to wait for. Both take turns: `waits_first` differs between the two."""

    waits_first: bool

    def receive(self, duration_s: float) -> None:
        """Block in a receive for this long; called in a thread of its own. The device is idle at the return."""

    def serve(self) -> None:
        """End the receive that the peer blocks in, when it is to end."""


@dataclass(slots=True, kw_only=True)
class TorchPlace:
    """Where torch kernels run."""

    torch: Any
    device: Any
    dtype: Any
    groups: Groups | None = None

    def group(self, communication: Communication) -> Any:
        """The process group that the run has for this kernel."""
        if self.groups is None:
            raise WorkloadError(
                f"{communication.collective} of {communication.ranks} ranks ({communication.group} group) "
                "needs a process for each: start them with torchrun, or measure with degree 1"
            )
        return self.groups(communication)


class TorchBench:
    """A bench whose kernels are torch code."""

    def __init__(self, device: Device, place: TorchPlace, runner: Runner, peer: Peer | None = None) -> None:
        self._device = device
        self._place = place
        self._runner = runner
        self._peer = peer
        self._prepared: tuple[str, Step] | None = None

    @property
    def device(self) -> Device:
        """The board that is read and clocked."""
        return self._device

    @property
    def last_idle_share(self) -> float:
        """What the runner found."""
        return self._runner.idle_share

    def now_s(self) -> float:
        """A monotonic time."""
        return now()

    def sleep(self, duration_s: float, poll: Poll | None = None) -> None:
        """Let time pass."""
        sleep(duration_s, poll)

    def prepare(self, kernel: Kernel) -> None:
        """Allocate the kernel's data and run it once, so that libraries choose and load their code."""
        self._drop()
        if kernel.prepare is None:
            raise WorkloadError(f"{titled(kernel)} has no code to run: it can only be simulated")
        try:
            step = kernel.prepare(self._place)
            step()
            self._runner.settle()
        except (Exception, SystemExit) as error:  # an exit of a user's code is a failure of the kernel
            raise self._failure(kernel, error) from error
        self._prepared = (kernel.name, step)

    def run(self, kernel: Kernel, repeats: int, poll: Poll | None = None) -> float:
        """Run the prepared kernel."""
        if self._prepared is None or self._prepared[0] != kernel.name:
            raise AssertionError(f"kernel {kernel.name} was not prepared")
        prepared = self._prepared[1]

        def step() -> None:
            try:
                prepared()
            except (Exception, SystemExit) as error:  # told apart here from what a poll raises
                raise self._failure(kernel, error) from error

        try:
            return self._runner.run(step, repeats, poll)
        except RuntimeError as error:  # how a GPU reports later what went wrong in a kernel
            raise self._failure(kernel, error) from error

    def wait(self, duration_s: float, poll: Poll | None = None) -> None:
        """Block in a receive from the peer, and serve the peer's; without one, spin as a receive does."""
        if self._peer is None:
            wait_for(self._runner, duration_s, poll)
            return
        receive = partial(self._receive, self._peer, duration_s, poll)
        turns: list[Callable[[], None]] = [receive, self._peer.serve]
        try:
            for turn in turns if self._peer.waits_first else reversed(turns):
                turn()
        except RuntimeError as error:
            raise WorkloadError(f"the rank to wait for is gone: {describe(error)}") from error

    def _receive(self, peer: Peer, duration_s: float, poll: Poll | None) -> None:
        helper = ThreadRunner()
        try:
            helper.run(partial(peer.receive, duration_s), 1, poll)
        finally:
            helper.close()

    def close(self) -> None:
        """Free the memory and let go of the board."""
        self._drop()
        self._runner.close()
        self._device.close()

    def _drop(self) -> None:
        self._prepared = None
        self._runner.forget()
        self._runner.release()

    def _failure(self, kernel: Kernel, error: Exception | SystemExit) -> EnergyoptError:
        if isinstance(error, EnergyoptError):
            return error
        if isinstance(error, MemoryError | self._place.torch.OutOfMemoryError):
            size = f"{kernel.memory_bytes / 2**30:.2f} GiB"
            return WorkloadError(
                f"{titled(kernel)} does not fit: its inputs and outputs take {size}{self._memory()}; lower the "
                "microbatch size or sequence length, or raise the tensor degree"
            )
        return WorkloadError(f"{titled(kernel)} fails: {describe(error)}")

    def _memory(self) -> str:
        if self._place.device.type != "cuda":
            return ""
        free, total = self._place.torch.cuda.mem_get_info(self._place.device)
        return (
            f" beside its intermediates, and the GPU has {free / 2**30:.2f} of {total / 2**30:.2f} GiB free"
        )


def open_torch_bench(
    device: Device,
    *,
    torch_device: str,
    dtype: str,
    groups: Groups | None = None,
    peer: Peer | None = None,
) -> TorchBench:
    """Open a bench on a CUDA device or a CPU.

    Args:
        device: the board that is read; on CUDA it must be the one that `torch_device` names.
        torch_device: `cuda:0`, or `cpu`; CUDA's own numbers, after CUDA_VISIBLE_DEVICES.
        dtype: of activations and weights.
        groups: gives the process groups of communication kernels.
        peer: what `wait` blocks on; every call of it must meet one of the peer's.

    Raises:
        RequestError: torch is not installed.
        WorkloadError: torch has no such type.
        DeviceError: no such device, or another board than `device`.
    """
    if dtype not in DTYPE_BYTES:
        raise WorkloadError(f"dtype {dtype!r} is none of {', '.join(DTYPE_BYTES)}")
    torch = import_torch()
    found = _torch_device(torch, torch_device)
    place = TorchPlace(torch=torch, device=found, dtype=getattr(torch, dtype), groups=groups)
    if found.type == "cpu":
        return TorchBench(device, place, ThreadRunner(), peer)
    _check_same_board(torch, found, device)
    torch.cuda.set_device(found)
    return TorchBench(device, place, CudaRunner(torch.cuda, found), peer)


def _torch_device(torch: Any, name: str) -> Any:
    try:
        found = torch.device(name)
    except RuntimeError as error:
        raise DeviceError(f"{name!r} is no torch device: give cuda:0 or cpu") from error
    if found.type not in {"cpu", "cuda"}:
        raise DeviceError(f"{name!r} is not supported: give cuda:0 or cpu")
    if found.type == "cpu":
        return found
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if (found.index or 0) >= count:
        raise DeviceError(
            f"torch sees {count} CUDA devices, so there is no {name}; check CUDA_VISIBLE_DEVICES"
        )
    return torch.device("cuda", found.index or 0)


def _check_same_board(torch: Any, found: Any, device: Device) -> None:
    """CUDA and NVML number boards differently: compare UUIDs, where the board is real and whole."""
    identity = device.identity
    if identity.kind != "nvml" or identity.mig:
        return
    uuid = str(torch.cuda.get_device_properties(found).uuid).removeprefix("GPU-")
    if uuid.lower() != identity.uuid.removeprefix("GPU-").lower():
        raise DeviceError(
            f"{found} is board GPU-{uuid} and {identity.name} is {identity.uuid}: "
            "kernels would run on one board and be measured on another"
        )
