"""Calls beside other threads, signals and processes."""

import multiprocessing
import os
import signal
import threading
import time

import numpy
import pytest
import reference
from attention_kernels import attention

LONG = reference.problem(1, 4, 4, 6000, 6000, 64)


def test_other_threads_run_meanwhile():
    done = threading.Event()
    thread = threading.Thread(target=lambda: (attention(*LONG), done.set()))
    thread.start()
    steps = 0
    while not done.is_set():
        time.sleep(0.001)
        steps += 1
    thread.join()
    assert steps > 10


def test_calls_from_many_threads():
    problems = [reference.problem(1, 2, 2, 50, 50, 16, seed) for seed in range(8)]
    results = [None] * len(problems)

    def run(i):
        for _ in range(20):
            results[i] = attention(*problems[i])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(problems))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for problem, o in zip(problems, results):
        assert (o == attention(*problem)).all()


def test_ctrl_c():
    q, k, v = reference.problem(1, 8, 8, 10000, 10000, 64)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background may ignore it
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        attention(q, k, v)  # takes seconds
    assert time.monotonic() - start < 1.5
    timer.join()
    signal.signal(signal.SIGINT, before)
    del q, k, v  # the computation that goes on has its own references
    assert attention(*reference.problem(1, 1, 1, 2, 2, 4)).shape == (1, 1, 2, 4)


def in_child(problem, queue):
    queue.put(attention(*problem))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_processes(method):
    problem = reference.problem(2, 2, 2, 200, 200, 16)
    expected = attention(*problem)  # the parent's threads are running
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=in_child, args=(problem, queue))
    child.start()
    assert (queue.get(timeout=60) == expected).all()
    child.join()


def test_the_caller_may_drop_its_arrays():
    for _ in range(200):
        o = attention(*(numpy.ones((1, 1, 8, 8), numpy.float32) for _ in range(3)))
        assert (abs(o - 1) < 1e-6).all()
