"""The whole report: boards, software, journals."""

from energyopt.applier.guard.restore import look_at_all
from energyopt.profiler.doctor.boards import look, look_at_real, sick
from energyopt.profiler.doctor.records import BoardReport, Lack, Report
from energyopt.profiler.doctor.software import software_facts
from energyopt.profiler.opening import is_simulated, open_simulated
from energyopt.schemas.errors import DeviceError


def examine(selector: str = "auto") -> Report:
    """Look at every real GPU (`auto`), at one by UUID or number, or at a simulated one (`sim:NAME`).

    Raises:
        DeviceError: one GPU was asked for, and it cannot be opened.
    """
    boards, lacks = _look_at(selector)
    return Report(boards=boards, sick=lacks, facts=software_facts(), journals=look_at_all())


def _look_at(selector: str) -> tuple[tuple[BoardReport, ...], tuple[Lack, ...]]:
    if is_simulated(selector):
        return (_simulated(selector),), ()
    if selector == "auto":
        return _all()
    from energyopt.applier.devices.nvml import open_nvml

    return look_at_real((open_nvml(selector),))


def _simulated(selector: str) -> BoardReport:
    bench = open_simulated(selector, None, None, seed=0)
    return look(bench.device, bench.now_s, bench.sleep)


def _all() -> tuple[tuple[BoardReport, ...], tuple[Lack, ...]]:
    from energyopt.applier.devices.nvml import list_devices

    try:
        listed = list_devices()
    except DeviceError as error:
        remedy = "on a machine with a GPU install its driver; planning and --device sim:NAME work without one"
        return (), (Lack(subject="GPU", problem=str(error), remedy=remedy),)
    boards, lacks = look_at_real(tuple(one for one in listed if not isinstance(one, str)))
    return boards, tuple(sick("GPU", one) for one in listed if isinstance(one, str)) + lacks
