"""Kernels, degrees, centring and HSIC against NumPy, and the laws of the paper."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from knet.arrays import LOG_FLOOR, row_blocks, squared_distances
from knet.train.kernels import (
    center,
    center_rows,
    clump_gradient,
    degrees,
    gaussian_kernel,
    kernel_matmul,
    pair_weights,
)
from tests import formulas
from tests.formulas import alignment, clump, hsic

SIGMAS = [0.3, 1.0, 4.0]
BLOCK_BYTES = [1, 8, 200, 1000, 10**9]  # one row at a time, ..., all at once


def rows(seed, n=17, d=3):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def orthonormal(seed, n, c):
    return torch.from_numpy(np.linalg.qr(np.random.default_rng(seed + 100).normal(size=(n, c)))[0])


def numpy_kernel(X, Y, sigma):
    return formulas.kernel(X, Y, sigma).numpy()


def centering_matrix(n):
    return formulas.centering(n).numpy()


def normalized_kernel(X, sigma):
    return formulas.normalized(formulas.kernel(X, X, sigma))


def test_squared_distances_equal_scipy(seed):
    X, Y = rows(seed).numpy(), rows(seed + 50, n=9).numpy()
    np.testing.assert_allclose(squared_distances(X, Y), cdist(X, Y, "sqeuclidean"), atol=1e-12)


def test_squared_distances_are_never_negative(seed):
    X = (rows(seed, n=40).float() * 1e-3 + 5).numpy()
    assert squared_distances(X, X.copy()).min() >= 0


@pytest.mark.parametrize("sigma", SIGMAS)
def test_gaussian_kernel_equals_numpy(seed, sigma):
    X, Y = rows(seed), rows(seed + 50, n=9)
    np.testing.assert_allclose(gaussian_kernel(X, Y, sigma), numpy_kernel(X, Y, sigma), atol=1e-12)


def test_gaussian_kernel_of_hand_computed_rows():
    X = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    expected = [[1, np.exp(-25 / 8)], [np.exp(-25 / 8), 1]]
    np.testing.assert_allclose(gaussian_kernel(X, X, 2.0), expected, rtol=1e-14)


def test_gaussian_kernel_leaves_its_arguments_alone(seed):
    X, Y = rows(seed), rows(seed + 50)
    before = X.clone(), Y.clone()
    gaussian_kernel(X, Y, 1.0)
    assert torch.equal(X, before[0])
    assert torch.equal(Y, before[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [1e2, 1e6, 1e15])
def test_far_pairs_stay_normal_numbers(dtype, distance):
    X = torch.tensor([[0.0], [distance]], dtype=dtype)
    K = gaussian_kernel(X, X, 1.0)
    assert K.min() >= torch.finfo(dtype).tiny  # neither zero nor denormal
    assert K[0, 1] == pytest.approx(np.exp(LOG_FLOOR), rel=1e-5)
    assert K[0, 1] < torch.finfo(torch.float64).eps  # and zero beside 1


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
def test_translation_changes_nothing_even_far_from_the_origin(seed, dtype, atol):
    X = (rows(seed) * 8).round().to(dtype) / 8  # multiples of 1/8: adding 2**20 is exact in both types
    moved = X + 2.0**20
    assert torch.equal(moved - 2.0**20, X)
    torch.testing.assert_close(gaussian_kernel(moved, moved, 1.0), gaussian_kernel(X, X, 1.0), atol=atol, rtol=0)
    torch.testing.assert_close(degrees(moved, 1.0), degrees(X, 1.0), atol=atol * len(X), rtol=0)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-4), (torch.float64, 1e-11)])
def test_translation_leaves_the_gradient_alone(seed, dtype, atol):
    X = (rows(seed) * 8).round().to(dtype) / 8
    B = rows(seed + 1, d=2).to(dtype) / 4
    torch.testing.assert_close(
        clump_gradient(X + 2.0**20, B, 1.0), clump_gradient(X, B, 1.0), atol=atol * len(X), rtol=0
    )


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 300), st.integers(0, 50), st.integers(1, 5000), st.integers(1, 400))
def test_row_blocks_cover_every_row_once_within_bounds(n_rows, n_columns, max_values, max_rows):
    blocks = list(row_blocks(n_rows, n_columns, max_values, max_rows))
    assert [i for block in blocks for i in range(n_rows)[block]] == list(range(n_rows))
    for block in blocks:
        size = block.stop - block.start
        assert size == 1 or (size <= max_rows and size * n_columns <= max_values)


@pytest.mark.parametrize("block_bytes", BLOCK_BYTES)
def test_blocked_products_equal_the_whole(seed, block_bytes):
    X, Y, V = rows(seed), rows(seed + 50, n=9), rows(seed + 70, n=9, d=4)
    expected = numpy_kernel(X, Y, 0.8) @ V.numpy()
    np.testing.assert_allclose(kernel_matmul(X, Y, V, 0.8, block_bytes), expected, atol=1e-12)


@pytest.mark.parametrize("block_bytes", BLOCK_BYTES)
def test_blocked_degrees_equal_row_sums(seed, block_bytes):
    X = rows(seed)
    np.testing.assert_allclose(degrees(X, 0.8, block_bytes), numpy_kernel(X, X, 0.8).sum(1), rtol=1e-12)


def test_a_row_is_its_own_neighbour():
    lonely = torch.arange(5.0)[:, None] * 1e4
    assert (degrees(lonely, 1e-3) >= 1).all()


def test_products_keep_the_type_of_the_vectors(seed):
    X, V = rows(seed).float(), rows(seed)
    assert kernel_matmul(X, X, V, 1.0).dtype == torch.float64


def test_center_equals_HMH(seed):
    M = rows(seed, n=12, d=12)
    H = centering_matrix(12)
    np.testing.assert_allclose(center(M), H @ M.numpy() @ H, atol=1e-12)
    np.testing.assert_allclose(center_rows(M), H @ M.numpy(), atol=1e-12)


def test_centered_rows_and_columns_sum_to_zero(seed):
    M = center(rows(seed, n=12, d=12) + 5)
    assert M.sum(0).abs().max() < 1e-11
    assert M.sum(1).abs().max() < 1e-11
    assert center_rows(rows(seed) + 5).sum(0).abs().max() < 1e-11


def test_hsic_of_a_hand_computed_case():
    # K~ = 1/2 [[1, 1, 0], [1, 1, 0], [0, 0, 2]], u = (1, 1, -2) / sqrt 6 is centred: u'K~u = (2 + 4) / 6 = 1.
    K_tilde = torch.tensor([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]], dtype=torch.float64)
    U = torch.tensor([[1.0], [1.0], [-2.0]], dtype=torch.float64) / 6**0.5
    assert float(alignment(K_tilde, U)) == pytest.approx(1, abs=1e-14)
    assert float(hsic(K_tilde, U)) == pytest.approx(1 / 4, abs=1e-14)
    assert float(hsic(K_tilde, torch.ones(3, 1, dtype=torch.float64))) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_pair_weights_and_the_kernel_give_the_alignment(seed, sigma):
    X, U = rows(seed), orthonormal(seed, 17, 3)
    B = pair_weights(U, degrees(X, sigma))
    found = float((B * (gaussian_kernel(X, X, sigma) @ B)).sum())
    assert found == pytest.approx(float(alignment(normalized_kernel(X, sigma), U)), abs=1e-12)
    assert found / 16**2 == pytest.approx(float(hsic(normalized_kernel(X, sigma), U)), abs=1e-14)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 25), st.integers(1, 4), st.floats(0.05, 20))
def test_hsic_is_nonnegative_bounded_and_blind_to_the_order_of_rows(seed, n, c, sigma):
    c = min(c, n)
    X, U = rows(seed, n=n), orthonormal(seed, n, c)
    K = normalized_kernel(X, sigma)
    value = float(alignment(K, U))
    assert -1e-12 <= value <= c + 1e-12
    order = torch.from_numpy(np.random.default_rng(seed).permutation(n))
    assert float(hsic(K[order][:, order], U[order])) == pytest.approx(float(hsic(K, U)), abs=1e-12)


def test_hsic_depends_on_the_pairing_of_rows(seed):
    X = rows(seed)
    X[:8] += 10
    U = torch.zeros(17, 1, dtype=torch.float64)
    U[:8], U[8:] = 1 / 8, -1 / 9
    order = torch.from_numpy(np.random.default_rng(seed).permutation(17))
    K = normalized_kernel(X, 1.0)
    assert float(hsic(K, U[order])) < 0.9 * float(hsic(K, U))


def test_pair_weights_are_the_root_of_gamma(seed):
    X, U = rows(seed), orthonormal(seed, 17, 3)
    B = pair_weights(U, degrees(X, 1.0))
    np.testing.assert_allclose(B @ B.mT, formulas.pair_weights(formulas.kernel(X, X, 1.0), U), atol=1e-13)


def test_clump_is_a_double_sum(seed):
    Psi, B = rows(seed), rows(seed + 1, d=2)
    Gamma = (B @ B.mT).numpy()
    total = sum(
        Gamma[i, j] * np.exp(-np.sum((Psi[i] - Psi[j]).numpy() ** 2) / (2 * 0.7**2))
        for i in range(17)
        for j in range(17)
    )
    assert float(clump(Psi, B, 0.7)) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_gradient_equals_autograd(seed, sigma):
    Psi, B = rows(seed).requires_grad_(), rows(seed + 1, d=2)
    K = torch.exp(-(Psi[:, None] - Psi[None]).square().sum(-1) / (2 * sigma**2))  # without in-place steps
    expected = torch.autograd.grad((B @ B.mT * K).sum(), Psi)[0]
    torch.testing.assert_close(clump_gradient(Psi.detach(), B, sigma), expected, atol=1e-11, rtol=1e-10)


def test_gradient_equals_finite_differences(seed):
    Psi, B, step = rows(seed, n=6), rows(seed + 1, n=6, d=2), 1e-6
    gradient = clump_gradient(Psi, B, 0.9)
    for i in range(Psi.shape[0]):
        for j in range(Psi.shape[1]):
            move = torch.zeros_like(Psi)
            move[i, j] = step
            slope = float(clump(Psi + move, B, 0.9) - clump(Psi - move, B, 0.9)) / (2 * step)
            assert float(gradient[i, j]) == pytest.approx(slope, abs=1e-7)


def test_every_function_accepts_leading_axes(seed):
    Psi, B = rows(seed, n=24).reshape(2, 12, 3), rows(seed + 1, n=24, d=2).reshape(2, 12, 2)
    for function in (clump, clump_gradient):
        both = function(Psi, B, 0.9)
        for i in range(2):
            torch.testing.assert_close(both[i], function(Psi[i], B[i], 0.9))
    K = gaussian_kernel(Psi, Psi, 0.9)
    for i in range(2):
        torch.testing.assert_close(K[i], gaussian_kernel(Psi[i], Psi[i], 0.9))
        torch.testing.assert_close(center(K)[i], center(K[i]))
        torch.testing.assert_close(alignment(K, B)[i], alignment(K[i], B[i]))
        torch.testing.assert_close(pair_weights(B, K.sum(-1))[i], pair_weights(B[i], K[i].sum(-1)))
