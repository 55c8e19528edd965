"""Golden model of what heads wait for: events, counters, values, the host, and other streams."""

from hw.regs.descriptor import (
    Comparison,
    EventWord,
    NotifyOperation,
    NotifyPayload,
    TaskType,
    ValuePayload,
)
from hw.regs.fault import FaultCause
from hw.regs.registers import Wait
from tests.models.memory import Fault

GENERATIONS = 1 << EventWord.generation.width
COUNTERS = 1 << NotifyPayload.amount.width
VALUES = 1 << ValuePayload.value.width
TIMED = (
    TaskType.EVENT_WAIT, TaskType.NOTIFY, TaskType.VALUE_WAIT, TaskType.HOST_CALLBACK,
    TaskType.BARRIER,
)  # fmt: skip
"""Types whose timeout counts while they are next."""


def compares(found, wait):
    """Whether a VALUE_WAIT passes."""
    mask = wait.mask or VALUES - 1
    found, wanted = found & mask, wait.value & mask
    match Comparison(wait.operation):
        case Comparison.NOT_LESS:
            return (found - wanted) % VALUES < VALUES // 2
        case Comparison.EQUAL:
            return found == wanted
        case Comparison.AND:
            return found & wanted != 0
        case Comparison.NOR:
            return ~(found | wanted) & mask != 0


class Waits:
    """Events and counters of `config`, and the conditions of heads of `queues`."""

    def __init__(self, config, queues, memory):
        self.config, self.queues, self.memory = config, queues, memory
        self.events = [(0, 0)] * config.events
        self.notifies = [0] * config.notifies

    def record(self, slot, generation, cycle):
        stored, _ = self.events[slot]
        if 0 < (generation - stored) % GENERATIONS < GENERATIONS // 2:
            self.events[slot] = generation, cycle

    def missing(self, sqe):
        """Dependencies that are not recorded yet, with their places."""
        words = [EventWord.from_int(word) for word in sqe.event_deps[: sqe.dependencies]]
        return [
            (i, word) for i, word in enumerate(words)
            if word.slot < self.config.events and not self._recorded(word)
        ]  # fmt: skip

    def _recorded(self, word):
        stored, _ = self.events[word.slot]
        return (stored - word.generation) % GENERATIONS < GENERATIONS // 2

    def wait(self, stream, sqe):
        """What a good head waits for. Raises `Fault` if it cannot be waited for."""
        if stream.call and not stream.lists:
            return Wait.NONE
        if self.missing(sqe):
            return Wait.EVENT
        match sqe.type:
            case TaskType.NOTIFY if not self._counted(sqe):
                return Wait.NOTIFY
            case TaskType.VALUE_WAIT if not self._polled(stream, sqe):
                return Wait.VALUE
            case TaskType.HOST_CALLBACK if not self._returned(stream):
                return Wait.CALLBACK
            case TaskType.BARRIER if not self._passed(stream, sqe):
                return Wait.BARRIER
        return Wait.NONE

    def _counted(self, sqe):
        notify = NotifyPayload.from_int(sqe.payload)
        waits = notify.operation == NotifyOperation.WAIT
        return not waits or self.notifies[notify.counter] >= notify.amount

    def notify(self, sqe):
        """A NOTIFY is dispatched."""
        notify = NotifyPayload.from_int(sqe.payload)
        former, amount = self.notifies[notify.counter], notify.amount
        self.notifies[notify.counter] = {
            NotifyOperation.ADD: former + amount,
            NotifyOperation.SET: amount,
            NotifyOperation.WAIT: former - amount,
        }[NotifyOperation(notify.operation)] % COUNTERS

    def _polled(self, stream, sqe):
        wait = ValuePayload.from_int(sqe.payload)
        raw = self.memory.load(self.queues.settings(stream).context, wait.address, 8)
        return compares(int.from_bytes(raw, "little"), wait)

    def _returned(self, stream):
        if stream.host_failed:
            raise Fault(FaultCause.HOST_CALLBACK, self.queues.place(stream))
        return stream.host_failed is not None

    def asks_host(self, stream):
        """The stream waits for a function of the host at this moment."""
        return stream.waits and stream.asks_host and stream.host_failed is None

    def returned(self, stream, order):
        """The host says that it has called a function."""
        if self.asks_host(stream):
            sqe = self.queues.peek(stream)
            if order.task == sqe.task_id % (1 << 31):
                stream.host_failed = bool(order.failed)

    def _passed(self, stream, sqe):
        """No other stream of the context has a task with a lesser number, or an unknown one.

        A BARRIER in a list has the number of its CALL.
        """
        number = (stream.call.sqe if stream.call else sqe).task_id
        context = self.queues.settings(stream).context
        for other in self.queues.streams:
            if other is stream or not other.pending:
                continue
            if self.queues.settings(other).context == context:
                oldest = self.queues.oldest(other)
                if oldest is None or oldest <= number:
                    return False
        return True
