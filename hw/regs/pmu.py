"""What the PMU's programmable counters can count."""

from __future__ import annotations

from .code import Code

__all__ = ["PmuEvent"]


class PmuEvent(Code):
    """Selects what a counter adds up. From STREAM_WAIT on, one code for each stream."""

    NONE = 0, "Nothing."
    CYCLES = 1, "Cycles while counting is enabled."
    TASKS = 2, "Tasks that retired, whatever their status."
    FAULTS = 3, "Faults, first and later ones."
    EVENT_RECORDS = 4, "Events recorded."
    EVENT_WAIT = 5, "Streams that run nothing as their next task waits, summed over cycles."
    CALLS = 6, "Lists that were begun."
    READ_BURSTS = 8, "Read bursts issued."
    READ_BEATS = 9, "Read beats taken."
    READ_OUTSTANDING = 10, "Read bursts in flight, summed over cycles: ÷ bursts = mean latency."
    WRITE_BURSTS = 11, "Write bursts issued."
    WRITE_BEATS = 12, "Write beats sent."
    WRITE_OUTSTANDING = 13, "Write bursts in flight, summed over cycles."
    READ_STALL = 14, "Cycles in which a read address waits for the bus."
    WRITE_STALL = 15, "Cycles in which a write beat waits for the bus."
    QUEUE_READ_BEATS = 16, "Read beats of the submission queues."
    COPY_READ_BEATS = 17, "Read beats of the copy channels."
    CODE_READ_BEATS = 18, "Read beats of kernel code."
    LOAD_READ_BEATS = 19, "Read beats of the load unit."
    VALUE_READ_BEATS = 23, "Read beats of VALUE_WAIT."
    COMPLETION_WRITE_BEATS = 20, "Write beats of the completion writer."
    COPY_WRITE_BEATS = 21, "Write beats of the copy channels."
    STORE_WRITE_BEATS = 22, "Write beats of the store unit."
    VALUE_WRITE_BEATS = 27, "Write beats of VALUE_WRITE."
    COPY_BUSY = 24, "Copy channels with a task, summed over cycles."
    CORE_BUSY = 25, "Cores with a task, summed over cycles."
    COPY_CORE_OVERLAP = 26, "Cycles with a copy channel and a core busy together."
    INSTRUCTIONS = 32, "Instructions issued by the sequencer."
    MACS = 33, "Multiply-accumulates of int8 that the array did: active rows × columns."
    ARRAY_BUSY = 34, "Cycles in which an activation row entered the array."
    LOAD_BUSY = 35, "Cycles with an instruction in the load unit."
    COMPUTE_BUSY = 36, "Cycles with an instruction in the compute unit."
    STORE_BUSY = 37, "Cycles with an instruction in the store unit."
    LOAD_TOKEN_WAIT = 38, "Cycles in which the load unit waits for a token."
    COMPUTE_TOKEN_WAIT = 39, "Cycles in which the compute unit waits for a token."
    STORE_TOKEN_WAIT = 40, "Cycles in which the store unit waits for a token."
    WEIGHT_WAIT = 41, "Cycles in which the array waits for weights."
    STREAM_WAIT = 64, "STREAM_WAIT + s: cycles in which stream s runs nothing but waits."
