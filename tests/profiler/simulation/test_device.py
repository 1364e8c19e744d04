import pytest

from energyopt.applier.devices.interface import ClockKnob, Device, FoundClocks, Throttle
from energyopt.profiler.benches.simulated import open_simulated_bench
from energyopt.profiler.simulation.gpus import GPUS
from energyopt.schemas.errors import ClockControlError


def test_every_supported_clock_is_accepted_and_shown() -> None:
    for name, spec in GPUS.items():
        bench = open_simulated_bench(name, noise=False)
        clocks = bench.device.supported_sm_clocks_mhz()
        assert clocks == tuple(range(spec.clocks.highest_mhz, spec.clocks.lowest_mhz - 1, -15))
        for clock in clocks:
            bench.device.lock_sm_clock(clock)
            bench.sleep(0.03)
            assert bench.device.state().sm_clock_mhz == clock


@pytest.mark.parametrize("clock", [0, 209, 1400, 1425])
def test_other_clocks_are_refused(clock: int) -> None:
    device = open_simulated_bench("a100-sxm4-80gb").device
    with pytest.raises(
        ClockControlError, match=rf"no SM clock of {clock} MHz; it has 210 to 1410 MHz in steps of 15"
    ):
        device.lock_sm_clock(clock)


def test_the_identity_tells_that_it_is_simulated() -> None:
    identity = open_simulated_bench("a100-sxm4-80gb", power_limit_w=500.0).device.identity
    assert (identity.name, identity.uuid, identity.kind) == (
        "NVIDIA A100-SXM4-80GB (simulated)",
        "SIM-a100-sxm4-80gb",
        "simulated",
    )
    assert (identity.power_limit_w, identity.memory_clock_mhz) == (500.0, 1593)


def test_boards_of_one_job_have_uuids_of_their_own() -> None:
    uuids = [open_simulated_bench("h200", number=number).device.identity.uuid for number in range(3)]
    assert uuids == ["SIM-h200", "SIM-h200-1", "SIM-h200-2"]


def test_restoring_puts_back_what_was_found() -> None:
    bench = open_simulated_bench("a40", noise=False)
    device: Device = bench.device
    nothing = device.find_clocks()
    assert nothing == FoundClocks(knob=ClockKnob.LOCKED_CLOCKS)
    device.lock_sm_clock(900)
    locked = device.find_clocks()
    assert locked.locked_mhz == (900, 900)
    device.lock_sm_clock(1200)
    device.restore_clocks(locked)
    assert device.find_clocks() == locked
    device.restore_clocks(nothing)
    bench.sleep(0.1)
    assert (device.find_clocks(), device.state().sm_clock_mhz) == (nothing, 210)


def test_everything_works_and_is_read_as_numbers() -> None:
    bench = open_simulated_bench("h200")
    bench.sleep(2.0)
    device, able = bench.device, bench.device.capabilities
    assert able.knob is ClockKnob.LOCKED_CLOCKS
    assert {able.energy_counter, able.power, able.sm_clock, able.temperature, able.set_clocks} == {None}
    assert device.energy_j() == pytest.approx(2.0 * device.power_w(), rel=0.1)
    state = device.state()
    assert (state.throttle, state.sm_clock_mhz) == (Throttle.GPU_IDLE, 345)
    device.close()
    device.close()
