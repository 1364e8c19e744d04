"""What of this machine's software and rights decides what can be measured and set."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from energyopt.applier.devices.nvml.rights import may_administer
from energyopt.applier.guard.container import ADVICE, fleeting_state_folder, in_container
from energyopt.applier.guard.journal import make_state_folder
from energyopt.profiler.doctor.records import Fact
from energyopt.schemas.errors import EnergyoptError

_TORCH_LIMIT_S = 60.0
_TORCH = (
    "import torch; devices = torch.cuda.device_count() if torch.cuda.is_available() else 0; "
    "print(torch.__version__, torch.version.cuda or 'none', devices)"
)


def software_facts() -> tuple[Fact, ...]:
    """Rights, container, bindings, torch, and where clock journals go."""
    return (
        _rights(),
        _container(),
        _visible(),
        *_bindings(),
        torch_fact([sys.executable, "-W", "ignore", "-c", _TORCH]),
        _state_folder(),
    )


def _rights() -> Fact:
    who = "root" if os.geteuid() == 0 else f"user {os.geteuid()}"
    held = "with" if may_administer() else "without"
    return Fact(name="rights", found=f"{who}, {held} CAP_SYS_ADMIN")


def torch_fact(command: list[str], limit_s: float = _TORCH_LIMIT_S) -> Fact:
    """What torch says in a process of its own, so that a broken or hanging one harms nothing here."""
    install = "pip install torch, with the CUDA version of the driver; needed to profile on a real GPU only"
    if _version("torch") is None:
        return Fact(name="torch", found="not installed", remedy=install)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=True)
        number, cuda, devices = done.stdout.split()[-3:]
    except subprocess.TimeoutExpired:
        return Fact(
            name="torch", found=f"does not answer within {limit_s:g} s", remedy="see nvidia-smi and dmesg"
        )
    except (subprocess.CalledProcessError, ValueError) as error:
        lines = (getattr(error, "stderr", "") or "no message").strip().splitlines()
        return Fact(name="torch", found=f"cannot be imported: {lines[-1]}", remedy="install it anew")
    return _torch_found(number, cuda, int(devices))


def _torch_found(number: str, cuda: str, devices: int) -> Fact:
    if cuda == "none":
        return Fact(
            name="torch",
            found=f"{number}, built without CUDA",
            remedy="to profile on a real GPU, install a build with CUDA",
        )
    found = f"{number}, CUDA {cuda}, {devices} visible"
    if devices:
        return Fact(name="torch", found=found)
    return Fact(
        name="torch", found=found, remedy="check CUDA_VISIBLE_DEVICES and that the driver serves this CUDA"
    )


def _container() -> Fact:
    if not in_container():
        return Fact(name="container", found="none seen")
    if not Path("/dev/nvidiactl").exists():
        remedy = "start it with --gpus all and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        return Fact(name="container", found="yes, and no GPU is passed in", remedy=remedy)
    if not may_administer():
        remedy = "to set clocks, start it with --cap-add SYS_ADMIN"
        return Fact(name="container", found="yes, without CAP_SYS_ADMIN", remedy=remedy)
    return Fact(name="container", found="yes")


def _visible() -> Fact:
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return Fact(name="CUDA_VISIBLE_DEVICES", found="not set" if named is None else repr(named))


def _bindings() -> Iterator[Fact]:
    ours = _version("nvidia-ml-py")
    remedy = None if ours else "pip install nvidia-ml-py"
    yield Fact(name="nvidia-ml-py", found=ours or "not installed", remedy=remedy)
    if (other := _version("pynvml")) is not None:
        yield Fact(
            name="pynvml",
            found=f"{other}, no longer maintained, may stand in front of nvidia-ml-py's module of that name",
            remedy="pip uninstall pynvml, then pip install --force-reinstall nvidia-ml-py",
        )


def _state_folder() -> Fact:
    try:
        folder = make_state_folder()
    except EnergyoptError as error:
        return Fact(name="state folder", found="cannot be written", remedy=str(error))
    if not os.access(folder, os.W_OK):
        return Fact(
            name="state folder", found=f"{folder} cannot be written", remedy="set ENERGYOPT_STATE_DIR"
        )
    if fleeting_state_folder() is not None:
        found = f"{folder}, in this container's own layer"
        return Fact(name="state folder", found=found, remedy=f"where clocks are set: {ADVICE}")
    return Fact(name="state folder", found=str(folder))


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
