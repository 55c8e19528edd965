"""Runs testbenches on a component."""

from amaranth.sim import Simulator

__all__ = ["simulate"]


def simulate(dut, *benches, background=()):
    """Runs until all benches have ended; those in the background do not keep it running."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-9)
    for bench in background:
        simulator.add_testbench(bench, background=True)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()
