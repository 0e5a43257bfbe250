"""Asked to end: whichever thread the signal hits, whatever the main one waits for."""

import os
import signal
import threading

import pytest

from braid.runtime.signals import ENDING, stop_on_signals

SOON = 30.0
NUMBERS = sorted(ENDING)


def hit_another_thread(number: signal.Signals) -> None:
    """As the kernel does when that thread is the first to look at its signals."""
    thread = threading.Thread(target=lambda: signal.pthread_kill(threading.get_ident(), number))
    thread.start()
    thread.join()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_main_thread_that_waits_hears_of_a_signal_that_another_thread_got(number: signal.Signals) -> None:
    with stop_on_signals() as stop:
        hit_another_thread(number)
        assert stop.wait(SOON)


def test_another_signal_does_not_end_it() -> None:
    heard = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.set())
    try:
        with stop_on_signals() as stop:
            signal.raise_signal(signal.SIGUSR1)
            assert heard.is_set()
        assert not stop.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_whoever_runs_within_another_ends_both() -> None:
    with stop_on_signals() as outer:
        with stop_on_signals() as inner:
            signal.raise_signal(signal.SIGTERM)
        assert inner.is_set()
        assert outer.wait(SOON)


def test_all_is_as_before_afterwards() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    with stop_on_signals():
        assert signal.getsignal(signal.SIGTERM) is not before[NUMBERS.index(signal.SIGTERM)]
    assert [signal.getsignal(number) for number in NUMBERS] == before
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (files, threads)
    assert signal.set_wakeup_fd(-1) == -1


@pytest.mark.parametrize("number", NUMBERS)
def test_the_second_signal_acts_as_usual_if_that_is_wanted(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_on_signals(once=True) as stop:
        signal.raise_signal(number)
        assert stop.wait(SOON)
        assert signal.getsignal(number) is before


def test_the_second_signal_is_the_first_once_more_otherwise() -> None:
    with stop_on_signals() as stop:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert stop.wait(SOON)
