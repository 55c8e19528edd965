"""Runs testbenches on a component, on the engine that the fixture `engine` chooses."""

from amaranth.sim import Simulator

from sim.engine.simulator import CompiledEngine

__all__ = ["ENGINES", "simulate", "simulator_of"]

ENGINES = {"pysim": "pysim", "compiled": CompiledEngine}
"""What Amaranth's simulator is told, by the name of the engine."""

engine = "pysim"
"""Name of the engine that simulations run on."""


def simulator_of(dut):
    """Amaranth's simulator of a component, without clocks and testbenches."""
    return Simulator(dut, engine=ENGINES[engine])


def simulate(dut, *benches, background=()):
    """Runs until all benches have ended; those in the background do not keep it running."""
    simulation = simulator_of(dut)
    simulation.add_clock(1e-9)
    for bench in background:
        simulation.add_testbench(bench, background=True)
    for bench in benches:
        simulation.add_testbench(bench)
    simulation.run()
