"""U-steps: one set of laws for all of them, and the dense textbook forms as oracle."""

import numpy as np
import pytest

from knet.train import eigensolvers, kernels
from knet.train.eigensolvers import largest_of_matrix, orthonormalize
from knet.train.kernels import center
from knet.train.laplacians import LAPLACIANS, BlockedLaplacian, DenseLaplacian, NystroemLaplacian, laplacian
from knet.train.u_steps import (
    U_STEPS,
    StiefelAscent,
    cayley_coordinates,
    eig_step,
    share_embedding,
    subspace_distance,
)
from tests import formulas
from tests.formulas import cayley

N, C = 90, 3
FORMS = ["dense", "blocked", "nystroem"]
STEPS = ["eig", "sma"]
ORTHONORMAL = 1e-10


def groups(seed, n=N, spread=0.7):
    """Three groups of rows, not quite apart."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) * spread + 2.5 * np.eye(3)[np.arange(n) % 3][:, :2]


def random_U(seed, n=N, c=C):
    return np.linalg.qr(np.random.default_rng(seed + 500).normal(size=(n, c)))[0]


def textbook(Psi, sigma):
    """H D^-1/2 K D^-1/2 H with every matrix formed."""
    H = formulas.centering(len(Psi))
    return H @ formulas.normalized(formulas.kernel(Psi, Psi, sigma)) @ H


def departure(U):
    return float(np.abs(U.T @ U - np.eye(U.shape[1])).max())


def projector(U):
    return U @ U.T


# The laws, for each U-step on each form of L


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
def test_U_stays_orthonormal_and_keeps_its_shape(seed, step, form):
    L, U = LAPLACIANS[form](groups(seed), 0.8), random_U(seed)
    for _ in range(3):
        U = U_STEPS[step](L, U)
        assert departure(U) < ORTHONORMAL
        assert U.shape == (N, C)
        assert U.dtype == np.float64


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
def test_value_never_falls(seed, step, form):
    L, U = LAPLACIANS[form](groups(seed), 0.8), random_U(seed)
    values = [L.trace_form(U)]
    for _ in range(10 if step == "sma" else 3):
        U = U_STEPS[step](L, U)
        values.append(L.trace_form(U))
    assert min(np.diff(values)) > -1e-11
    assert values[-1] > values[0] + 0.1  # and from a random start it rises


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
def test_value_does_not_fall_from_the_optimum(seed, step, form):
    Psi = groups(seed)
    L, best = LAPLACIANS[form](Psi, 0.8), DenseLaplacian(Psi, 0.8).largest(C)[1]
    U = U_STEPS[step](L, best)
    assert departure(U) < ORTHONORMAL
    assert L.trace_form(U) > L.trace_form(best) - 1e-10


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
def test_a_start_from_another_kernel_is_improved(seed, step, form):
    start = DenseLaplacian(groups(seed + 7), 0.8).largest(C)[1]
    L = LAPLACIANS[form](groups(seed), 0.8)
    assert L.trace_form(U_STEPS[step](L, start)) > L.trace_form(start)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
def test_the_start_is_not_written_to(seed, step, form):
    L, U = LAPLACIANS[form](groups(seed), 0.8), random_U(seed)
    before = U.copy()
    U_STEPS[step](L, U)
    np.testing.assert_array_equal(U, before)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("n", "c"), [(2, 1), (2, 2), (3, 2), (5, 2), (12, 2), (12, 5), (12, 12), (40, 8)])
def test_small_problems_keep_the_laws(seed, step, form, n, c):
    L, U = LAPLACIANS[form](groups(seed, n=n), 0.8), random_U(seed, n, c)
    new = U_STEPS[step](L, U)
    assert new.shape == (n, c)
    assert departure(new) < ORTHONORMAL
    assert L.trace_form(new) > L.trace_form(U) - 1e-10


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
def test_fewer_distinct_rows_than_columns_keep_the_laws(seed, step, form):
    Psi = np.tile(groups(seed, n=3), (20, 1))
    L, U = LAPLACIANS[form](Psi, 0.8), random_U(seed, 60, 5)
    new = U_STEPS[step](L, U)
    assert new.shape == (60, 5)
    assert departure(new) < ORTHONORMAL
    assert L.trace_form(new) > L.trace_form(U) - 1e-10


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("sigma", [1e-6, 1e-2, 1e6])
@pytest.mark.parametrize(("n", "c"), [(40, 2), (150, 3)])
def test_kernels_close_to_identity_or_all_ones_keep_the_laws(seed, step, form, sigma, n, c):
    L, U = LAPLACIANS[form](groups(seed, n=n), sigma), random_U(seed, n, c)
    new = U_STEPS[step](L, U)
    assert new.shape == (n, c)
    assert departure(new) < ORTHONORMAL
    assert L.trace_form(new) > L.trace_form(U) - 1e-10


@pytest.mark.parametrize("sigma", [1e-6, 1e-2, 1e6])
def test_the_iterative_solver_survives_kernels_close_to_identity_or_all_ones(seed, sigma):
    L = DenseLaplacian(groups(seed, n=450), sigma)
    w, U = L.largest(2)
    assert departure(U) < ORTHONORMAL
    np.testing.assert_allclose(w, np.linalg.eigvalsh(L.matrix)[:-3:-1], atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_repeats_to_the_bit(seed, form):
    first, second = (eig_step(LAPLACIANS[form](groups(seed), 0.8), random_U(seed)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


# Eigenvectors


@pytest.mark.parametrize(("n", "c"), [(1, 1), (5, 3), (5, 5), (5, 8), (40, 4)])
def test_the_largest_eigenpairs_of_a_matrix(rng, n, c):
    half = rng.normal(size=(n, n))
    M = half + half.T
    values, vectors = largest_of_matrix(M, c)
    expected = np.linalg.eigvalsh(M)[::-1][:c]
    np.testing.assert_allclose(values, expected, atol=1e-12)
    assert vectors.shape == (n, min(n, c))
    assert departure(vectors) < ORTHONORMAL
    np.testing.assert_allclose(M @ vectors, vectors * values, atol=1e-12)


@pytest.mark.parametrize("n", [200, 400])
@pytest.mark.parametrize("M", [np.eye, lambda n: np.zeros((n, n)), formulas.centering])
def test_equal_eigenvalues_have_eigenvectors_too(n, M):
    values, vectors = largest_of_matrix(M(n), 7)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(M(n))[::-1][:7], atol=1e-12)
    assert departure(vectors) < ORTHONORMAL
    np.testing.assert_allclose(M(n) @ vectors, vectors * values, atol=1e-12)


def test_a_failure_of_the_fast_solver_is_mended(monkeypatch, rng):
    genuine, drivers = eigensolvers.eigh, []

    def failing(M, driver="evr", subset_by_index=None, check_finite=True):
        drivers.append(driver)
        w, V = genuine(M, check_finite=check_finite)
        return (w[:0], V[:, :0]) if driver == "evr" else (w, V)  # as LAPACK does: fewer values than asked for

    monkeypatch.setattr(eigensolvers, "eigh", failing)
    half = rng.normal(size=(30, 30))
    values, vectors = largest_of_matrix(half + half.T, 4)
    assert drivers == ["evr", "evd"]
    np.testing.assert_allclose(values, np.linalg.eigvalsh(half + half.T)[::-1][:4], atol=1e-12)
    np.testing.assert_allclose((half + half.T) @ vectors, vectors * values, atol=1e-12)


@pytest.mark.parametrize("sigma", [0.3, 0.8, 3.0])
@pytest.mark.parametrize("n", [N, 450])  # by LAPACK, and by products
def test_eig_reaches_the_largest_eigenvalues_of_the_textbook_matrix(seed, sigma, n):
    Psi = groups(seed, n=n)
    w = np.linalg.eigvalsh(textbook(Psi, sigma))[::-1][:C]
    L = DenseLaplacian(Psi, sigma)
    assert L.trace_form(eig_step(L, random_U(seed, n))) == pytest.approx(w.sum(), abs=1e-9)
    np.testing.assert_allclose(L.largest(C)[0], w, atol=1e-9)


def test_the_value_is_the_hsic_of_the_paper(seed):
    Psi, U = groups(seed), random_U(seed)
    expected = formulas.hsic(formulas.normalized(formulas.kernel(Psi, Psi, 0.8)), U) * (N - 1) ** 2
    assert DenseLaplacian(Psi, 0.8).trace_form(U) == pytest.approx(expected, abs=1e-12)


def test_eigenvalues_lie_between_zero_and_one(seed):
    w = DenseLaplacian(groups(seed), 0.8).largest(N)[0]
    assert w.max() <= 1 + 1e-12
    assert w.min() >= -1e-12
    assert (np.diff(w) <= 1e-12).all()  # downwards


# The forms of L


@pytest.mark.parametrize("form", FORMS)
def test_every_form_equals_the_textbook_matrix(seed, form):
    Psi, V = groups(seed), random_U(seed, c=5)
    L = LAPLACIANS[form](Psi, 0.8)  # Nystroem with every row a landmark
    np.testing.assert_allclose(L @ V, textbook(Psi, 0.8) @ V, atol=1e-6 if form == "nystroem" else 1e-12)
    np.testing.assert_allclose(L.d, DenseLaplacian(Psi, 0.8).d, rtol=1e-6 if form == "nystroem" else 1e-12)


@pytest.mark.parametrize("form", ["blocked", "nystroem"])
@pytest.mark.parametrize("sigma", [0.3, 0.8])
@pytest.mark.parametrize("n", [200, 500])
def test_every_form_has_the_same_eigenspace(seed, form, sigma, n):
    Psi = groups(seed, n=n)
    w, U = DenseLaplacian(Psi, sigma).largest(2)
    w_form, U_form = LAPLACIANS[form](Psi, sigma).largest(2)
    np.testing.assert_allclose(w_form, w, atol=1e-6, rtol=0)
    assert np.abs(projector(U_form) - projector(U)).max() < 1e-4


def test_blocked_form_makes_no_full_kernel(monkeypatch, seed):
    original, sizes = kernels.gaussian_kernel, []

    def counting(X, Y, sigma):
        sizes.append(len(X) * len(Y))
        return original(X, Y, sigma)

    monkeypatch.setattr(kernels, "gaussian_kernel", counting)
    monkeypatch.setattr(kernels.kernel_matmul, "__defaults__", (10 * 200,))
    monkeypatch.setattr(kernels.degrees, "__defaults__", (10 * 200,))
    Psi = groups(seed, n=200)
    L = BlockedLaplacian(Psi, 0.8)
    w = L.largest(2)[0]
    assert sizes
    assert max(sizes) <= 10 * 200
    np.testing.assert_allclose(w, DenseLaplacian(Psi, 0.8).largest(2)[0], atol=1e-6, rtol=0)


def test_few_landmarks_come_close(seed):
    Psi = groups(seed, n=600)
    exact = DenseLaplacian(Psi, 0.8).largest(C)[0]
    errors = [np.abs(NystroemLaplacian(Psi, 0.8, m).largest(C)[0] - exact).max() for m in (20, 60, 200)]
    assert errors[2] < 1e-3
    assert errors[1] < 0.03
    assert errors[2] < errors[0]


@pytest.mark.parametrize(
    ("n", "sigma", "budget", "kind"),
    [
        (200, 0.8, 8 * 200**2, DenseLaplacian),
        (200, 0.8, 8 * 200**2 - 1, NystroemLaplacian),
        (200, 0.02, 8 * 200**2 - 1, BlockedLaplacian),  # too narrow for landmarks to stand for the rows
        (200, 0.02, 8 * 200**2, DenseLaplacian),
    ],
)
def test_auto_keeps_to_its_budget(seed, n, sigma, budget, kind):
    assert type(laplacian(groups(seed, n=n), sigma, budget)) is kind


def test_auto_takes_the_low_rank_form_of_very_many_rows_whatever_the_kernel(monkeypatch, seed):
    monkeypatch.setattr("knet.train.laplacians.BLOCKED_ROWS", 199)
    assert type(laplacian(groups(seed, n=200), 0.02, 1)) is NystroemLaplacian


def test_auto_takes_as_many_landmarks_as_fit(monkeypatch, seed):
    monkeypatch.setattr("knet.train.laplacians.BLOCKED_ROWS", 0)
    Psi, ranks = groups(seed, n=900), []
    for budget in (1, 24 * 900 * 100, 24 * 900 * 250):
        ranks.append(laplacian(Psi, 0.1, budget).F.shape[1])
    assert ranks[0] <= 64 < ranks[1] <= 100 < ranks[2] <= 250


@pytest.mark.parametrize("sigma", [0.05, 0.2, 0.8])
@pytest.mark.parametrize("n_landmarks", [40, 150])
def test_the_error_of_the_low_rank_form_is_estimated(seed, sigma, n_landmarks):
    Psi = groups(seed, n=1000)
    L, exact = NystroemLaplacian(Psi, sigma, n_landmarks), DenseLaplacian(Psi, sigma)
    U = L.largest(2)[1]
    true = np.linalg.norm(L @ U - exact @ U) / 2**0.5
    assert true / 5 - 1e-6 < L.error(U) < 5 * true + 1e-6
    assert exact.error(U) == BlockedLaplacian(Psi, sigma).error(U) == 0.0


def test_more_landmarks_leave_less_error(seed):
    Psi = groups(seed, n=1000)
    U = DenseLaplacian(Psi, 0.2).largest(2)[1]
    errors = [NystroemLaplacian(Psi, 0.2, m).error(U) for m in (30, 100, 400, 1000)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-6 < errors[0]


def test_a_start_near_the_eigenvectors_saves_products(seed):
    class Counting(DenseLaplacian):
        n_products = 0

        def __matmul__(self, V):
            self.n_products += 1
            return super().__matmul__(V)

    counts = []
    for start in (None, DenseLaplacian(groups(seed, n=600), 0.3).largest(2)[1]):
        L = Counting(groups(seed, n=600), 0.3)
        w, V = L.largest(2, start=start)
        counts.append(L.n_products)
        np.testing.assert_allclose(w, np.linalg.eigvalsh(L.matrix)[:-3:-1], atol=1e-9)
        assert departure(V) < ORTHONORMAL
    assert counts[1] < counts[0]


@pytest.mark.parametrize("form", FORMS)
def test_single_precision_input_is_computed_in_double(seed, form):
    L = LAPLACIANS[form](groups(seed).astype(np.float32), 0.8)
    assert L.d.dtype == np.float64
    assert (L @ random_U(seed)).dtype == np.float64
    for values in L.largest(C):
        assert values.dtype == np.float64


# Stiefel ascent


@pytest.mark.parametrize("form", FORMS)
def test_sma_run_long_reaches_the_value_of_eig(seed, form):
    L, U = LAPLACIANS[form](groups(seed), 0.8), random_U(seed)
    best = float(DenseLaplacian(groups(seed), 0.8).largest(C)[0].sum())
    for _ in range(40):
        U = StiefelAscent(tol=0.0)(L, U)
    assert L.trace_form(U) == pytest.approx(best, abs=1e-7)
    assert departure(U) < ORTHONORMAL


def test_sma_reaches_the_eigenspace_too(seed):
    L, U = DenseLaplacian(groups(seed), 0.8), random_U(seed, c=2)
    for _ in range(60):
        U = StiefelAscent(tol=0.0)(L, U)
    assert np.abs(projector(U) - projector(eig_step(L, U))).max() < 1e-4


@pytest.mark.parametrize("lengths", [(1e-3,), (1.0,), (1e3,), (1e-3, 1.0, 1e3)])
def test_every_single_step_rises_whatever_the_lengths_tried(seed, lengths):
    L, U = DenseLaplacian(groups(seed), 0.8), random_U(seed)
    ascent = StiefelAscent(n_steps=1, step_lengths=lengths)
    value = start = L.trace_form(U)
    for _ in range(60):
        U = ascent(L, U)
        assert L.trace_form(U) >= value - 1e-12
        value = L.trace_form(U)
    assert value > start or lengths == (1e3,)  # too long a step alone may find nothing better


def test_a_step_takes_the_best_of_the_lengths(seed):
    L, U, lengths = DenseLaplacian(groups(seed), 0.8), random_U(seed), (0.1, 1.0, 3.0, 30.0)
    best = max(L.trace_form(cayley(U, L @ U, step)) for step in lengths)
    assert L.trace_form(StiefelAscent(n_steps=1, step_lengths=lengths)(L, U)) == pytest.approx(best, abs=1e-12)


def test_a_step_costs_one_product(seed):
    class Counting(DenseLaplacian):
        n_products = 0

        def __matmul__(self, V):
            self.n_products += 1
            return super().__matmul__(V)

    L = Counting(groups(seed), 0.8)
    StiefelAscent(n_steps=5, tol=0.0)(L, random_U(seed))
    assert L.n_products == 6  # and one for the start


def test_the_ascent_ends_when_steps_gain_little(seed):
    L, U = DenseLaplacian(groups(seed), 0.8), random_U(seed)
    loose, tight = (L.trace_form(StiefelAscent(n_steps=50, tol=tol)(L, U)) for tol in (0.1, 0.0))
    assert L.trace_form(U) < loose < tight


@pytest.mark.parametrize("step", [1e-3, 0.5, 10.0])
def test_cayley_equals_the_transform_of_the_full_matrix(seed, step):
    U, G = random_U(seed), DenseLaplacian(groups(seed), 0.8) @ random_U(seed)
    found = U + step * np.hstack([G, U]) @ cayley_coordinates(U, G, step)
    np.testing.assert_allclose(found, cayley(U, G, step), atol=1e-12)


def test_cayley_starts_uphill(seed):
    L, U = DenseLaplacian(groups(seed), 0.8), random_U(seed)
    assert L.trace_form(cayley(U, L @ U, 1e-3)) > L.trace_form(U)
    assert L.trace_form(cayley(U, L @ U, -1e-3)) < L.trace_form(U)


def test_the_printed_plus_sign_leaves_the_manifold_and_the_minus_does_not(seed):
    L = textbook(groups(seed), 0.8)
    printed = right = random_U(seed)
    eye = np.eye(N)

    def turn(A, U):
        return np.linalg.solve(eye - A / 2, (eye + A / 2) @ U)

    for _ in range(5):
        printed = turn(L @ printed @ printed.T + printed @ (L @ printed).T, printed)
        right = turn(L @ right @ right.T - right @ (L @ right).T, right)
    assert departure(printed) > 0.05
    assert departure(right) < 1e-12


def test_orthonormalize_gives_the_nearest_basis(seed):
    U = random_U(seed)
    noisy = U + 1e-3 * np.random.default_rng(seed).normal(size=U.shape)
    near = orthonormalize(noisy)
    assert departure(near) < 1e-14
    gap = np.square(near - noisy).sum()
    assert gap <= np.square(U - noisy).sum()
    assert gap < np.square(np.abs(np.linalg.qr(noisy)[0]) - np.abs(noisy)).sum()


# The stop rule's measure


@pytest.mark.parametrize("c", [1, 2, 5])
def test_subspace_distance_equals_its_definition(seed, c):
    U, V = random_U(seed, c=c), random_U(seed + 1, c=c)
    expected = np.linalg.norm(projector(U) - projector(V)) / (2 * c) ** 0.5
    assert subspace_distance(U, V) == pytest.approx(expected, abs=1e-12)


def test_subspace_distance_ignores_the_basis_and_spans_zero_to_one(seed):
    U = random_U(seed, c=4)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    assert subspace_distance(U, U @ turn) < 1e-7
    assert subspace_distance(U[:, :2], U[:, 2:]) == pytest.approx(1, abs=1e-12)


def test_the_helpers_can_fail(seed):
    assert departure(2 * random_U(seed)) > 1
    uneven = groups(seed)
    assert np.abs(textbook(uneven, 0.8) - center(np.eye(N))).max() > 0.1


@pytest.mark.parametrize("far", [8.0, 100.0])
def test_all_of_several_equal_eigenvalues_are_found_from_a_start(seed, far):
    groups = np.arange(400) % 4
    Psi = far * np.eye(4)[groups] + np.random.default_rng(seed).normal(size=(400, 4))
    L, start = DenseLaplacian(Psi, 2.0), share_embedding(np.eye(4)[groups], 3)
    values, U = L.largest(3, start)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(L.matrix)[::-1][:3], atol=1e-7)
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-7)
    assert subspace_distance(U, L.largest(3)[1]) < 1e-3
