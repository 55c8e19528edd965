import signal
import threading
import time

import pytest

from rt.errors import ReentryError
from rt.monitor import Monitor, Woken, entered
from tests.rt.threads import LONG, threads, until


class Guarded:
    """Counts as read, pause, write: wrong if two threads are in at once."""

    def __init__(self):
        self.monitor = Monitor()
        self.count = 0

    @entered
    def add(self, amount: int = 1) -> int:
        """Adds."""
        former = self.count
        time.sleep(0)
        self.count = former + amount
        return self.count

    @entered
    def add_twice(self):
        self.add()
        self.monitor.relinquish()
        return self.add()


def test_one_thread_at_a_time_and_again_from_inside():
    guarded = Guarded()
    with threads(*(lambda: [guarded.add_twice() for _ in range(200)] for _ in range(8))):
        pass
    assert guarded.count == 8 * 200 * 2


def test_a_decorated_method_keeps_its_name_text_and_result():
    guarded = Guarded()
    assert (Guarded.add.__name__, Guarded.add.__doc__) == ("add", "Adds.")
    assert guarded.add(amount=3) == 3


def test_threads_get_it_in_the_order_in_which_they_came():
    monitor, order = Monitor(), []

    def come():
        with monitor:
            order.append(threading.get_ident())

    with monitor, threads(*[come] * 6):
        until(lambda: len(monitor._line) == 6)
        wanted = [gate.thread for gate in monitor._line]
        monitor.relinquish()
        assert order == wanted  # who gives it up stands behind all who came before


def test_relinquishing_lets_each_in_once_and_comes_back():
    monitor, order = Monitor(), []

    def work(name):
        with monitor, monitor:
            for _ in range(3):
                order.append(name)
                monitor.relinquish()

    with monitor, threads(lambda: work("a"), lambda: work("b")):
        until(lambda: len(monitor._line) == 2)
        monitor.relinquish()
        assert sorted(order) == ["a", "b"]
        monitor.relinquish()
        assert order == order[:2] * 2
        monitor.relinquish()
        monitor.relinquish()
        assert order == order[:2] * 3


def test_relinquishing_alone_does_nothing():
    monitor = Monitor()
    with monitor:
        monitor.relinquish()
        assert monitor._depth == 1


def test_a_sleeper_is_woken_by_the_next_who_leaves():
    monitor, woken = Monitor(), []

    def rest():
        with monitor:
            woken.append(monitor.sleep(LONG))

    with threads(rest):
        until(lambda: monitor._sleepers)
        with monitor:
            pass
    assert woken == [Woken.ACT]


def test_a_sleeper_wakes_when_its_time_is_over():
    monitor = Monitor()
    with monitor:
        assert monitor.sleep(0.01) is Woken.TIME
        assert monitor._depth == 1


def test_all_others_sleep_until_one_of_them_is_awake_or_dead():
    monitor, end = Monitor(), threading.Event()

    def rest():
        with monitor:
            while not end.is_set():
                monitor.sleep(LONG)

    def pass_by():
        with monitor:
            pass
        end.wait(LONG)

    with monitor:
        assert monitor.alone
        assert monitor.others_sleep
    with threads(rest, rest) as running:
        until(lambda: len(monitor._sleepers) == 2)
        assert not monitor.alone
        assert monitor.others_sleep
        with threads(pass_by):
            until(lambda: len(monitor._users) == 4 and len(monitor._sleepers) == 2)
            assert not monitor.others_sleep
            end.set()
        with monitor:
            pass
        for thread in running:
            thread.join(LONG)
    assert monitor.alone


def test_a_servant_is_no_user():
    monitor, end = Monitor(), threading.Event()

    def serve():
        monitor.exempt()
        with monitor:
            pass
        end.wait(LONG)

    with monitor:
        pass
    with threads(serve):
        until(lambda: not monitor._line and len(monitor._servants) == 1)
        assert monitor.alone
        end.set()


def test_a_barred_thread_is_refused_at_once_even_while_another_is_in():
    monitor, refused = Monitor(), []

    def function():
        with monitor.barred(), pytest.raises(ReentryError, match="return first") as caught:
            monitor.__enter__()
        refused.append(caught.value.code)
        with monitor:
            refused.append("in")

    with monitor, threads(function):
        until(lambda: refused)
        monitor.relinquish()
    assert refused == [107000, "in"]


@pytest.mark.parametrize("place", ["line", "relinquish", "sleep"])
def test_an_interrupt_from_the_keyboard_leaves_it_sane(place):
    monitor, main, inside = Monitor(), threading.main_thread().ident, threading.Event()

    def disturb():
        if place == "sleep":
            until(lambda: monitor._sleepers)
            signal.pthread_kill(main, signal.SIGINT)
            return
        with monitor:
            inside.set()
            until(lambda: monitor._line)
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.05)

    def wait():
        if place == "line":
            inside.wait(LONG)
        with monitor, monitor:
            if place == "sleep":
                monitor.sleep(LONG)
            else:
                until(lambda: monitor._line)
                monitor.relinquish()

    with threads(disturb), pytest.raises(KeyboardInterrupt):
        wait()
    assert (monitor._owner, monitor._depth) == (None, 0)
    assert not monitor._line
    assert not monitor._sleepers
    with threads(monitor.__enter__):
        pass  # nobody is in
