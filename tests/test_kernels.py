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
    clump_gradient_through_degrees,
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
    return np.random.default_rng(seed).normal(size=(n, d))


def orthonormal(seed, n, c):
    return np.linalg.qr(np.random.default_rng(seed + 100).normal(size=(n, c)))[0]


def normalized_kernel(X, sigma):
    return formulas.normalized(formulas.kernel(X, X, sigma))


def test_squared_distances_equal_scipy(seed):
    X, Y = rows(seed), rows(seed + 50, n=9)
    np.testing.assert_allclose(squared_distances(X, Y), cdist(X, Y, "sqeuclidean"), atol=1e-12)


def test_squared_distances_are_never_negative(seed):
    X = rows(seed, n=40).astype(np.float32) * np.float32(1e-3) + 5
    assert X.dtype == np.float32
    assert squared_distances(X, X.copy()).min() >= 0


@pytest.mark.parametrize("sigma", SIGMAS)
def test_gaussian_kernel_equals_numpy(seed, sigma):
    X, Y = rows(seed), rows(seed + 50, n=9)
    np.testing.assert_allclose(gaussian_kernel(X, Y, sigma), formulas.kernel(X, Y, sigma), atol=1e-12)


def test_gaussian_kernel_of_hand_computed_rows():
    X = np.array([[0.0, 0.0], [3.0, 4.0]])
    expected = [[1, np.exp(-25 / 8)], [np.exp(-25 / 8), 1]]
    np.testing.assert_allclose(gaussian_kernel(X, X, 2.0), expected, rtol=1e-14)


def test_gaussian_kernel_leaves_its_arguments_alone(seed):
    X, Y = rows(seed), rows(seed + 50)
    before = X.copy(), Y.copy()
    gaussian_kernel(X, Y, 1.0)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Y, before[1])


@pytest.mark.parametrize("through_degrees", [False, True])
def test_gradients_leave_their_arguments_alone(seed, through_degrees):
    Psi, B = rows(seed), rows(seed + 1, d=2)
    before = Psi.copy(), B.copy()
    if through_degrees:
        clump_gradient_through_degrees(Psi, B, 0.8, 3.0)
    else:
        clump_gradient(Psi, B, 0.8)
    np.testing.assert_array_equal(Psi, before[0])
    np.testing.assert_array_equal(B, before[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_and_gradients_keep_the_type_of_their_arguments(seed, dtype):
    Psi, B = rows(seed).astype(dtype), rows(seed + 1, d=2).astype(dtype)
    assert gaussian_kernel(Psi, Psi, 0.8).dtype == dtype
    assert clump_gradient(Psi, B, 0.8).dtype == dtype
    assert clump_gradient_through_degrees(Psi, B, 0.8, 3.0).dtype == dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", [1e2, 1e6, 1e15])
def test_far_pairs_stay_normal_numbers(dtype, distance):
    X = np.array([[0.0], [distance]], dtype=dtype)
    K = gaussian_kernel(X, X, 1.0)
    assert K.dtype == dtype
    assert K.min() >= np.finfo(dtype).tiny  # neither zero nor denormal
    assert K[0, 1] == pytest.approx(np.exp(LOG_FLOOR), rel=1e-5)
    assert K[0, 1] < np.finfo(np.float64).eps  # and zero beside 1


@pytest.mark.parametrize(("dtype", "atol"), [(np.float32, 1e-4), (np.float64, 1e-11)])
def test_translation_changes_nothing_even_far_from_the_origin(seed, dtype, atol):
    X = (rows(seed) * 8).round().astype(dtype) / 8  # multiples of 1/8: adding 2**20 is exact in both types
    moved = X + dtype(2.0**20)
    np.testing.assert_array_equal(moved - dtype(2.0**20), X)
    np.testing.assert_allclose(gaussian_kernel(moved, moved, 1.0), gaussian_kernel(X, X, 1.0), atol=atol, rtol=0)
    np.testing.assert_allclose(degrees(moved, 1.0), degrees(X, 1.0), atol=atol * len(X), rtol=0)


@pytest.mark.parametrize(("dtype", "atol"), [(np.float32, 1e-4), (np.float64, 1e-11)])
def test_translation_leaves_the_gradients_alone(seed, dtype, atol):
    X = (rows(seed) * 8).round().astype(dtype) / 8
    B, moved = rows(seed + 1, d=2).astype(dtype) / 4, X + dtype(2.0**20)
    np.testing.assert_allclose(clump_gradient(moved, B, 1.0), clump_gradient(X, B, 1.0), atol=atol * len(X), rtol=0)
    there, here = (clump_gradient_through_degrees(rows, B, 1.0, 2.0) for rows in (moved, X))
    np.testing.assert_allclose(there, here, atol=atol * len(X), rtol=0)


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
    expected = formulas.kernel(X, Y, 0.8) @ V
    np.testing.assert_allclose(kernel_matmul(X, Y, V, 0.8, block_bytes), expected, atol=1e-12)


@pytest.mark.parametrize("block_bytes", BLOCK_BYTES)
def test_blocked_degrees_equal_row_sums(seed, block_bytes):
    X = rows(seed)
    np.testing.assert_allclose(degrees(X, 0.8, block_bytes), formulas.kernel(X, X, 0.8).sum(1), rtol=1e-12)


def test_a_row_is_its_own_neighbour():
    lonely = np.arange(5.0)[:, None] * 1e4
    assert (degrees(lonely, 1e-3) >= 1).all()


def test_products_keep_the_type_of_the_vectors(seed):
    X, V = rows(seed).astype(np.float32), rows(seed)
    assert kernel_matmul(X, X, V, 1.0).dtype == np.float64
    assert degrees(X, 1.0).dtype == np.float32


def test_center_equals_HMH(seed):
    M = rows(seed, n=12, d=12)
    H = formulas.centering(12)
    np.testing.assert_allclose(center(M), H @ M @ H, atol=1e-12)
    np.testing.assert_allclose(center_rows(M), H @ M, atol=1e-12)


def test_centered_rows_and_columns_sum_to_zero(seed):
    M = center(rows(seed, n=12, d=12) + 5)
    assert np.abs(M.sum(0)).max() < 1e-11
    assert np.abs(M.sum(1)).max() < 1e-11
    assert np.abs(center_rows(rows(seed) + 5).sum(0)).max() < 1e-11


def test_hsic_of_a_hand_computed_case():
    # K~ = 1/2 [[1, 1, 0], [1, 1, 0], [0, 0, 2]], u = (1, 1, -2) / sqrt 6 is centred: u'K~u = (2 + 4) / 6 = 1.
    K_tilde = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    U = np.array([[1.0], [1.0], [-2.0]]) / 6**0.5
    assert alignment(K_tilde, U) == pytest.approx(1, abs=1e-14)
    assert hsic(K_tilde, U) == pytest.approx(1 / 4, abs=1e-14)
    assert hsic(K_tilde, np.ones((3, 1))) == pytest.approx(0, abs=1e-14)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_the_pair_weights_and_the_kernel_give_the_alignment(seed, sigma):
    X, U = rows(seed), orthonormal(seed, 17, 3)
    B = pair_weights(U, degrees(X, sigma))
    found = float((B * (gaussian_kernel(X, X, sigma) @ B)).sum())
    assert found == pytest.approx(alignment(normalized_kernel(X, sigma), U), abs=1e-12)
    assert found / 16**2 == pytest.approx(hsic(normalized_kernel(X, sigma), U), abs=1e-14)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 25), st.integers(1, 4), st.floats(0.05, 20))
def test_hsic_is_nonnegative_bounded_and_blind_to_the_order_of_rows(seed, n, c, sigma):
    c = min(c, n)
    X, U = rows(seed, n=n), orthonormal(seed, n, c)
    K = normalized_kernel(X, sigma)
    value = alignment(K, U)
    assert -1e-12 <= value <= c + 1e-12
    order = np.random.default_rng(seed).permutation(n)
    assert hsic(K[order][:, order], U[order]) == pytest.approx(hsic(K, U), abs=1e-12)


def test_hsic_depends_on_the_pairing_of_rows(seed):
    X = rows(seed)
    X[:8] += 10
    U = np.zeros((17, 1))
    U[:8], U[8:] = 1 / 8, -1 / 9
    order = np.random.default_rng(seed).permutation(17)
    K = normalized_kernel(X, 1.0)
    assert hsic(K, U[order]) < 0.9 * hsic(K, U)


def test_pair_weights_are_the_root_of_gamma(seed):
    X, U = rows(seed), orthonormal(seed, 17, 3)
    B = pair_weights(U, degrees(X, 1.0))
    np.testing.assert_allclose(B @ B.T, formulas.pair_weights(formulas.kernel(X, X, 1.0), U), atol=1e-13)


def test_clump_is_a_double_sum(seed):
    Psi, B = rows(seed), rows(seed + 1, d=2)
    Gamma = B @ B.T
    total = sum(
        Gamma[i, j] * np.exp(-np.sum((Psi[i] - Psi[j]) ** 2) / (2 * 0.7**2)) for i in range(17) for j in range(17)
    )
    assert clump(Psi, B, 0.7) == pytest.approx(total, rel=1e-12)


# Gradients: autograd and finite differences are the oracles


def torch_kernel(Psi, sigma):
    """Return the kernel as a function that autograd can follow."""
    return torch.exp(-(Psi[:, None] - Psi[None]).square().sum(-1) / (2 * sigma**2))


def normalized_clump(Psi, HU, sigma, share):
    """Return tr(HU' D^-1/2 K D^-1/2 HU) with D from the rows given, each representing `share` rows."""
    K = formulas.kernel(Psi, Psi, sigma)
    B = HU / np.sqrt(share * K.sum(1))[:, None]
    return float((B * (K @ B)).sum())


@pytest.mark.parametrize("sigma", SIGMAS)
def test_gradient_equals_autograd(seed, sigma):
    Psi, B = rows(seed), rows(seed + 1, d=2)
    points, root = torch.from_numpy(Psi).requires_grad_(), torch.from_numpy(B)
    expected = torch.autograd.grad((root @ root.mT * torch_kernel(points, sigma)).sum(), points)[0]
    np.testing.assert_allclose(clump_gradient(Psi, B, sigma), expected, atol=1e-11, rtol=1e-10)


def test_gradient_equals_finite_differences(seed):
    Psi, B, step = rows(seed, n=6), rows(seed + 1, n=6, d=2), 1e-6
    gradient = clump_gradient(Psi, B, 0.9)
    for index in np.ndindex(*Psi.shape):
        move = np.zeros_like(Psi)
        move[index] = step
        slope = (clump(Psi + move, B, 0.9) - clump(Psi - move, B, 0.9)) / (2 * step)
        assert gradient[index] == pytest.approx(slope, abs=1e-7)


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("share", [1.0, 3.0, 12.5])
def test_gradient_through_degrees_equals_autograd(seed, sigma, share):
    Psi, HU = rows(seed), center_rows(rows(seed + 1, d=2))
    points, weights = torch.from_numpy(Psi).requires_grad_(), torch.from_numpy(HU)
    K = torch_kernel(points, sigma)
    B = weights * (share * K.sum(1, keepdim=True)).rsqrt()
    expected = torch.autograd.grad((B * (K @ B)).sum(), points)[0]
    found = clump_gradient_through_degrees(Psi, HU, sigma, share)
    np.testing.assert_allclose(found, expected, atol=1e-11, rtol=1e-10)


@pytest.mark.parametrize("share", [1.0, 3.0])
def test_gradient_through_degrees_equals_finite_differences(seed, share):
    Psi, HU, step = rows(seed, n=7, d=2), center_rows(rows(seed + 1, n=7)), 1e-6
    gradient = clump_gradient_through_degrees(Psi, HU, 0.8, share)
    for index in np.ndindex(*Psi.shape):
        move = np.zeros_like(Psi)
        move[index] = step
        up, down = (normalized_clump(Psi + sign * move, HU, 0.8, share) for sign in (1, -1))
        assert gradient[index] == pytest.approx((up - down) / (2 * step), abs=1e-7)


def test_normalized_clump_of_all_rows_is_the_alignment(seed):
    Psi, U = rows(seed, n=9, d=2), orthonormal(seed, 9, 2)
    expected = alignment(normalized_kernel(Psi, 0.8), U)
    assert normalized_clump(Psi, center_rows(U), 0.8, 1.0) == pytest.approx(expected, abs=1e-12)


def test_the_two_gradients_differ(seed):
    Psi, HU = rows(seed, n=7, d=2), center_rows(rows(seed + 1, n=7, d=2))
    fixed = clump_gradient(Psi, HU / np.sqrt(formulas.kernel(Psi, Psi, 0.8).sum(1))[:, None], 0.8)
    assert not np.allclose(fixed, clump_gradient_through_degrees(Psi, HU, 0.8, 1.0), atol=1e-2)
