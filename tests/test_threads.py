"""Work in threads: every piece once, in order, on one thread of torch, and the host left as it was."""

import threading

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from knet import threads
from knet.threads import allowed_threads, in_threads, limit_threads, one_blas_thread, one_thread


@pytest.fixture(params=[1, 2, 3])
def n_threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_one_thread_restores_the_count_even_after_an_error(n_threads):
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == n_threads
    with pytest.raises(RuntimeError, match="stop"), one_thread():
        raise RuntimeError("stop")
    assert torch.get_num_threads() == n_threads


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_one_blas_thread_restores_the_count_even_after_an_error():
    with threadpool_limits(2):
        before = blas_threads()
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        assert blas_threads() == before
        with pytest.raises(RuntimeError, match="stop"), one_blas_thread():
            raise RuntimeError("stop")
        assert blas_threads() == before


@pytest.mark.parametrize("n_pieces", [0, 1, 2, 17])
def test_results_come_in_the_order_of_the_pieces(n_threads, n_pieces):
    results = in_threads(lambda piece: (piece, torch.get_num_threads()), range(n_pieces))
    assert results == [(i, 1) for i in range(n_pieces)]
    assert torch.get_num_threads() == n_threads


def test_as_many_threads_work_as_torch_may_use(n_threads):
    together = threading.Barrier(n_threads, timeout=20)  # broken unless all of them arrive
    names = in_threads(lambda piece: (together.wait(), threading.current_thread().name)[1], range(n_threads))
    assert len(set(names)) == n_threads


def test_work_inside_work_stays_on_its_thread(n_threads):
    def inner(piece):
        return threading.current_thread().name

    for names in in_threads(lambda piece: [threading.current_thread().name, *in_threads(inner, range(3))], range(4)):
        assert len(set(names)) == 1


def test_an_error_in_a_piece_reaches_the_caller(n_threads):
    def work(piece):
        if piece == 2:
            raise ArithmeticError("in a piece")

    with pytest.raises(ArithmeticError, match="in a piece"):
        in_threads(work, range(4))
    assert torch.get_num_threads() == n_threads


def test_overlapping_limits_restore_the_host(n_threads):
    """Two callers that begin and end in turn, as two threads that label rows at the same time do."""
    first, second = one_thread(), limit_threads(2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_num_threads() == min(2, n_threads)
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == n_threads


def test_a_limit_never_raises_the_number_of_the_host(n_threads):
    with limit_threads(8):
        assert torch.get_num_threads() == allowed_threads() == n_threads
        with limit_threads(2):
            assert torch.get_num_threads() == allowed_threads() == min(2, n_threads)
        with one_thread():
            assert torch.get_num_threads() == 1
            assert allowed_threads() == n_threads
    assert torch.get_num_threads() == allowed_threads() == n_threads


def test_a_caller_keeps_its_threads_while_another_one_works(n_threads):
    with one_thread():
        together = threading.Barrier(n_threads, timeout=20)
        names = in_threads(lambda piece: (together.wait(), threading.current_thread().name)[1], range(n_threads))
    assert len(set(names)) == n_threads
    assert torch.get_num_threads() == n_threads


def test_an_interruption_while_a_limit_begins_leaves_no_limit(monkeypatch):
    before, genuine, calls = torch.get_num_threads(), threads._Threads._apply, []

    def interrupted(self):
        calls.append(1)
        genuine(self)
        if len(calls) == 1:
            raise KeyboardInterrupt

    for begin in (lambda: limit_threads(1), one_thread):
        calls.clear()
        monkeypatch.setattr(threads._Threads, "_apply", interrupted)
        with pytest.raises(KeyboardInterrupt), begin():
            pass
        monkeypatch.undo()
        assert torch.get_num_threads() == before
        assert threads._THREADS.limits == {}
