"""Data sets in the manner of the public clustering batteries: `python -m benchmarks.generated_battery` lists them.

They are generated here and are not the original sets: shapes, unequal sizes, uniform noise, and Gaussians that overlap,
in 2 to 64 columns. Groups are numbered from 1; rows of noise have the label 0 and are not scored.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

Rows = np.ndarray
Data = tuple[np.ndarray, np.ndarray]
Point = Sequence[float]
Random = np.random.Generator
Maker = Callable[[Random], Data]
TURN = 2 * np.pi


def labelled(groups: Sequence[Rows], noise: Rows | None = None) -> Data:
    """Return all rows, and the number of each row's group."""
    y = np.repeat(np.arange(1, len(groups) + 1), [len(group) for group in groups])
    if noise is None:
        return np.concatenate(groups), y
    return np.concatenate([*groups, noise]), np.concatenate([y, np.zeros(len(noise), int)])


def in_noise(rng: Random, groups: Sequence[Rows], n_noise: int) -> Data:
    """Return groups with uniform noise over a box that is slightly larger than they are."""
    X = np.concatenate(groups)
    low, high = X.min(0), X.max(0)
    margin = 0.05 * (high - low)
    return labelled(groups, rng.uniform(low - margin, high + margin, (n_noise, X.shape[1])))


def blob(rng: Random, n: int, center: Point, spread: float | Point = 1.0) -> Rows:
    """Return a Gaussian group along the axes."""
    return np.asarray(center, float) + rng.normal(size=(n, len(center))) * np.asarray(spread)


def disc(rng: Random, n: int, radius: float, center: Point) -> Rows:
    """Return a uniform disc."""
    angle, distance = rng.uniform(0, TURN, n), radius * np.sqrt(rng.uniform(size=n))
    return np.asarray(center, float) + np.column_stack([distance * np.cos(angle), distance * np.sin(angle)])


def arc(rng: Random, n: int, radius: float, angles: Point, noise: float, center: Point = (0, 0)) -> Rows:
    """Return a noisy arc of a circle; angles in turns."""
    angle = TURN * rng.uniform(*angles, n)
    circle = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.asarray(center, float) + circle + noise * rng.normal(size=(n, 2))


def ring(rng: Random, n: int, radius: float, noise: float, center: Point = (0, 0)) -> Rows:
    """Return a noisy circle."""
    return arc(rng, n, radius, (0, 1), noise, center)


def box(rng: Random, n: int, x: Point, y: Point) -> Rows:
    """Return a uniform rectangle."""
    return np.column_stack([rng.uniform(*x, n), rng.uniform(*y, n)])


def stick(rng: Random, n: int, start: Point, end: Point, noise: float) -> Rows:
    """Return a noisy line."""
    along = rng.uniform(size=(n, 1))
    return np.asarray(start) * (1 - along) + np.asarray(end) * along + noise * rng.normal(size=(n, 2))


def frame(rng: Random, n: int, inner: float, outer: float) -> Rows:
    """Return a uniform frame around a square."""
    rows = rng.uniform(-outer, outer, (20 * n, 2))
    return rows[np.abs(rows).max(1) > inner][:n]


def apart(rng: Random, n_points: int, low: float, high: float, distance: float) -> list[Rows]:
    """Return random points of a square that keep a distance from each other."""
    points: list[Rows] = []
    while len(points) < n_points:
        point = rng.uniform(low, high, 2)
        if all(np.hypot(*(point - other)) > distance for other in points):
            points.append(point)
    return points


# Shapes: curves, rings, frames.


def disc_over_bowl(rng: Random) -> Data:
    """Return a disc that touches a bowl below it, with two outliers."""
    upper = np.concatenate([disc(rng, 85, 2.6, (7, 24.3)), [[0.6, 25.5], [1.0, 25.0]]])
    lower = np.concatenate([arc(rng, 110, 5.0, (0.5, 1), 0.45, (7, 23.8)), box(rng, 43, (4, 10), (18, 20.3))])
    return labelled([upper, lower])


def unequal_crescents(rng: Random) -> Data:
    """Return a sparse crescent that reaches into a dense one."""
    return labelled(
        [arc(rng, 97, 11.0, (0.025, 0.5), 0.9, (12, 15)), arc(rng, 276, 12.0, (0.51, 0.975), 1.1, (26, 17.5))]
    )


def mixed_shapes(rng: Random) -> Data:
    """Return two blobs that touch, a blob in a ring, and a dense disc in a sparse one."""
    pair = [blob(rng, 50, (11, 20), 0.9), blob(rng, 92, (16, 19.6), 1.5)]
    nested = [blob(rng, 38, (12.5, 10), 0.75), ring(rng, 45, 3.5, 0.35, (12.5, 10))]
    return labelled([*pair, *nested, disc(rng, 158, 2.2, (33, 12)), disc(rng, 16, 5.5, (33, 12))])


def open_ring_around_blobs(rng: Random) -> Data:
    """Return two blobs inside an open ring."""
    outer = arc(rng, 110, 9.5, (-0.11, 0.61), 0.45, (19, 15))
    return labelled([outer, blob(rng, 97, (14.3, 15), 1.5), blob(rng, 93, (23, 15), 1.6)])


def short_spirals(rng: Random) -> Data:
    """Return three short spiral arms of few rows."""
    radius = np.linspace(0.8, 3.9, 104)
    angles = [1.2 * radius + TURN * arm / 3 for arm in range(3)]
    arms = [np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) for angle in angles]
    return labelled([arm + 0.03 * rng.normal(size=arm.shape) for arm in arms])


def nested_rings(rng: Random) -> Data:
    """Return four rings with the same centre."""
    return labelled([ring(rng, n, radius, 0.08) for n, radius in ((300, 1), (500, 2), (800, 3), (1000, 4))])


def fuzzy_rings(rng: Random) -> Data:
    """Return three rings, the outer ones wide and sparse."""
    return labelled([ring(rng, 1200, radius, noise) for radius, noise in ((1, 0.06), (3, 0.4), (6.5, 0.7))])


def labyrinth(rng: Random) -> Data:
    """Return four bent walls and two blobs between them."""
    outer = [stick(rng, 700, (0, 0), (0, 10), 0.25), stick(rng, 500, (0, 10), (8, 10), 0.25)]
    right = [stick(rng, 500, (2, 0), (10, 0), 0.25), stick(rng, 500, (10, 0), (10, 10), 0.25)]
    inner = [stick(rng, 400, (2, 8), (8, 8), 0.2), stick(rng, 300, (2, 8), (2, 4), 0.2)]
    lower = [stick(rng, 250, (2, 2), (8, 2), 0.2), stick(rng, 250, (8, 2), (8, 6), 0.2)]
    walls = [np.concatenate(wall) for wall in (outer, right, inner, lower)]
    return labelled([*walls, blob(rng, 300, (4.2, 4.7), 0.4), blob(rng, 80, (6.2, 5.8), 0.25)])


def waves(rng: Random, n_waves: int, n: int, length: float, gap: float, shift: float, noise: float) -> Data:
    """Return sine curves above each other."""
    groups = []
    for wave in range(n_waves):
        along = rng.uniform(0, length, n)
        curve = np.column_stack([along, 2 * np.sin(8 / length * along + shift * wave) + gap * wave])
        groups.append(curve + noise * rng.normal(size=(n, 2)))
    return labelled(groups)


def linked_rings(rng: Random) -> Data:
    """Return five rings in the plane that cross each other."""
    return labelled(
        [ring(rng, 600, 1.0, 0.06, center) for center in ((0, 0), (2.4, 0), (4.8, 0), (1.2, -1), (3.6, -1))]
    )


def face(rng: Random) -> Data:
    """Return a face: outline, mouth, eyes and nose."""
    outline, mouth = ring(rng, 400, 5, 0.12), arc(rng, 220, 3, (0.575, 0.925), 0.12)
    eyes = [blob(rng, 100, (x, 1.6), 0.3) for x in (-1.7, 1.7)]
    return labelled([outline, mouth, *eyes, stick(rng, 100, (0, 0.9), (0, -0.8), 0.1)])


def two_stripes(rng: Random) -> Data:
    """Return two long parallel stripes."""
    return labelled([stick(rng, 1800, (0, up), (10, 3 + up), 0.16) for up in (0, 1.1)])


def blobs_in_shell(rng: Random) -> Data:
    """Return two blobs inside an ellipsoidal shell, in three columns."""
    shell = rng.normal(size=(2000, 3))
    shell *= np.array([6, 3, 3]) / np.linalg.norm(shell, axis=1, keepdims=True)
    blobs = [blob(rng, 400, (x, 0, 0), 0.5) for x in (-2, 2)]
    return labelled([shell + 0.15 * rng.normal(size=shell.shape), *blobs])


def chained_rings(rng: Random) -> Data:
    """Return two rings in space, each through the other, and a stick."""
    angle, other = rng.uniform(0, TURN, 500), rng.uniform(0, TURN, 500)
    flat = np.column_stack([2 * np.cos(angle), 2 * np.sin(angle), np.zeros(500)])
    upright = np.column_stack([2 + 2 * np.cos(other), np.zeros(500), 2 * np.sin(other)])
    rings = [rows + 0.2 * rng.normal(size=rows.shape) for rows in (flat, upright)]
    column = np.column_stack([blob(rng, 500, (-4, 0), 0.2), rng.uniform(-3, 3, 500)])
    return labelled([*rings, column])


def window(rng: Random) -> Data:
    """Return a frame around four panes of different densities."""
    centers = ((800, -2, -2), (600, 2, -2), (300, -2, 2), (300, 2, 2))
    panes = [box(rng, n, (x - 1.4, x + 1.4), (y - 1.4, y + 1.4)) for n, x, y in centers]
    return labelled([frame(rng, 1600, 4.2, 5.0), *panes])


def four_arms(rng: Random) -> Data:
    """Return the four arms of a cross, free in the middle."""
    ends = [(3, 0), (-3, 0), (0, 3), (0, -3)]
    return labelled([stick(rng, 500, np.array(end) / 12, end, 0.12) for end in ends])


def crossing_sticks(rng: Random) -> Data:
    """Return two long groups that cross in the middle."""
    return labelled([blob(rng, 700, (0, 0), (2, 0.18)), blob(rng, 700, (0, 0), (0.18, 2))])


# Sizes: round or long groups of unequal sizes and densities, or very many of them.


def discs_with_bridges(rng: Random) -> Data:
    """Return seven discs of unequal sizes, two pairs connected by a few rows."""
    places = ((170, 4.2, 9, 22), (34, 1.7, 9.5, 6.2), (273, 5.2, 32, 22), (102, 3.3, 32.2, 8.6), (130, 3.6, 20.5, 7.6))
    discs = [disc(rng, n, radius, (x, y)) for n, radius, x, y in (*places, (43, 2.0, 20.5, 22.5))]
    bridged = np.concatenate([disc(rng, 32, 1.6, (14, 6.4)), stick(rng, 4, (15.5, 6.8), (17, 7.2), 0.1)])
    return labelled([*discs, bridged])


def blobs_on_circles(rng: Random) -> Data:
    """Return fifteen blobs: one in the middle, seven near it, seven farther away."""
    angles = TURN * np.arange(7) / 7
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    near = [blob(rng, 40, center, 0.33) for center in ((0, 0), *(2.1 * circle))]
    return labelled([*near, *(blob(rng, 40, center, 0.4) for center in 6 * circle)])


def many_blobs(rng: Random, n_groups: int, spread: float) -> Data:
    """Return many blobs at random places."""
    return labelled([blob(rng, 100, center, spread) for center in apart(rng, n_groups, 2, 30, 3.6)])


def tilted_groups(rng: Random, spread: float) -> Data:
    """Return fifteen Gaussian groups of random tilt; the spread decides how far they overlap."""
    groups = []
    for center in apart(rng, 15, 0.08, 0.92, 0.16):
        axes = np.diag(rng.uniform(0.6, 1.3, 2)) @ np.linalg.qr(rng.normal(size=(2, 2)))[0]
        groups.append(center + spread * rng.normal(size=(200, 2)) @ axes)
    return labelled(groups)


def large_and_small(rng: Random) -> Data:
    """Return three dense groups of 1000 rows and five sparse ones of 50."""
    large = zip([(1.5, 3.5), (2.1, 3.9), (2.1, 3.1)], (0.11, 0.09, 0.1), strict=True)
    small = [(4.4, 3), (4.4, 4), (5, 3.5), (5.5, 3), (5.5, 4)]
    dense = [blob(rng, 1000, center, spread) for center, spread in large]
    return labelled([*dense, *(blob(rng, 50, center, 0.13) for center in small)])


def groups_on_lattice(rng: Random) -> Data:
    """Return 35 groups on places of a lattice."""
    places = rng.permutation(64)[:35]
    centers = np.column_stack([places % 8, places // 8]) + rng.uniform(-0.15, 0.15, (35, 2))
    return labelled([blob(rng, 80, center, rng.uniform(0.2, 0.24)) for center in centers])


def groups_on_wave(rng: Random) -> Data:
    """Return sixty groups along a sine curve."""
    return labelled([blob(rng, 40, (place, 3 * np.sin(place / 6)), 0.18) for place in range(60)])


def three_small_blobs(rng: Random) -> Data:
    """Return three blobs of 40 rows that overlap."""
    return labelled([blob(rng, 40, center, 0.65) for center in ((0, 0), (2.2, 0), (1.1, 2))])


def unequal_densities(rng: Random) -> Data:
    """Return five groups of different densities and one long one."""
    dense = [blob(rng, 300, (0, 0), 0.35), blob(rng, 300, (1.5, 0), 0.35)]
    sparse = [disc(rng, 200, 1.4, (5, 0)), blob(rng, 50, (3, 3), 0.8)]
    return labelled([*dense, *sparse, stick(rng, 50, (-2, 2), (1, 3.5), 0.15)])


def long_groups(rng: Random) -> Data:
    """Return long groups of unequal sizes near each other."""
    places = ((90, (0, 0), (2, 0.2)), (60, (0, 1.3), (0.6, 0.2)), (30, (2.5, 1.6), 0.3), (20, (-2.6, 1.5), 0.2))
    return labelled([blob(rng, n, center, spread) for n, center, spread in places])


def tilted_pair(rng: Random) -> Data:
    """Return two tilted groups that touch."""
    shear = np.array([[1, 0.6], [0, 1]])
    return labelled([blob(rng, 200, center, (0.6, 0.35)) @ shear for center in ((0, 0), (1.9, -0.2))])


# Shapes in uniform noise.


def six_shapes(rng: Random) -> Data:
    """Return two arches, two boxes and two discs."""
    arches = [
        arc(rng, 500, 1, angles, 0) * (4, 6) + center + 0.3 * rng.normal(size=(500, 2))
        for angles, center in (((0, 0.5), (6, 0)), ((0.5, 1), (11, 4)))
    ]
    boxes = [box(rng, 500, (18, 22), (-6, 8)), box(rng, 350, (14, 17), (6, 9))]
    return in_noise(rng, [*arches, *boxes, disc(rng, 300, 1.8, (25.5, 5)), disc(rng, 450, 2.4, (25.5, -3))], 500)


def eight_boxes(rng: Random) -> Data:
    """Return six upright boxes and two flat ones below them."""
    upright = [box(rng, 330, (4 * i + 0.4 * (i % 2), 4 * i + 3), (3 * (i % 2), 3 * (i % 2) + 9)) for i in range(6)]
    return in_noise(rng, [*upright, box(rng, 330, (0, 11), (-3, -1.2)), box(rng, 330, (12.5, 23), (-3, -1.2))], 500)


def arcs_and_discs(rng: Random) -> Data:
    """Return two arcs around discs, two sticks, two more discs and a flat box."""
    arcs = [arc(rng, 400, 5, (0.05, 0.65), 0.3), arc(rng, 400, 4, (0.6, 1.1), 0.3, (4.6, -1.5))]
    discs = [
        disc(rng, n, radius, center)
        for n, radius, center in (
            (300, 2, (-0.5, 0.5)),
            (300, 1.4, (5, -0.8)),
            (300, 1.5, (19, -4)),
            (200, 1.1, (8.6, 5.5)),
        )
    ]
    sticks = [stick(rng, 400, (12, -6), (12, 6), 0.35), stick(rng, 400, (14.5, -6), (18, 6), 0.35)]
    return in_noise(rng, [*arcs, *discs, *sticks, box(rng, 300, (-6, 8), (-8.7, -7.3))], 700)


def shapes_of_unequal_widths(rng: Random) -> Data:
    """Return long blobs, an arc over a disc, boxes and a large disc."""
    blobs = [blob(rng, 400, (x, 0), (0.5, 2.2)) for x in (0, 3.5)]
    nested = [arc(rng, 400, 3, (0, 0.5), 0.25, (9, -1)), disc(rng, 300, 1.2, (9, -0.8))]
    boxes = [box(rng, 300, (6, 12), (-5, -3.6)), box(rng, 500, (14, 16), (-5, 4)), box(rng, 300, (17.5, 21), (-5, -3))]
    return in_noise(rng, [*blobs, *nested, *boxes, disc(rng, 500, 2.0, (19.5, 2))], 400)


def moons_and_blobs(rng: Random) -> Data:
    """Return two moons and four blobs."""
    moons = [arc(rng, 250, 1, (0, 0.5), 0.07), arc(rng, 250, 1, (0.5, 1), 0.07, (1, 0.5))]
    places = (((-1.7, 1.8), 0.18), ((2.7, -1.5), (0.35, 0.1)), ((3, 1.5), 0.25), ((-1.5, -1.5), (0.12, 0.3)))
    return in_noise(rng, [*moons, *(blob(rng, 300, center, spread) for center, spread in places)], 300)


def six_blobs(rng: Random) -> Data:
    """Return six blobs on a lattice."""
    return in_noise(rng, [blob(rng, 250, (3 * (i % 3), 3 * (i // 3)), 0.4) for i in range(6)], 400)


# Gaussians that overlap.


def equal_pair(rng: Random, n_columns: int, distance: float) -> Data:
    """Return two round groups of the same spread."""
    center = np.full(n_columns, distance / 2 / np.sqrt(n_columns))
    return labelled([blob(rng, 700, -center), blob(rng, 700, center)])


def unequal_pair(rng: Random, n_columns: int) -> Data:
    """Return a round group and one with nearly twice its spread."""
    along = np.full(n_columns, 1 / np.sqrt(n_columns))
    return labelled([blob(rng, 700, -1.6 * along), blob(rng, 700, 2.2 * along, 1.9)])


def random_mixture(rng: Random, n_columns: int, n_groups: int, separation: float) -> Data:
    """Return groups with random centres, sizes and covariances."""
    groups = []
    for _ in range(n_groups):
        axes = np.linalg.qr(rng.normal(size=(n_columns, n_columns)))[0] * np.exp(0.5 * rng.normal(size=n_columns))
        center = separation * rng.normal(size=n_columns)
        groups.append(center + rng.normal(size=(rng.integers(60, 500), n_columns)) @ axes)
    return labelled(groups)


FAMILIES: dict[str, dict[str, Maker]] = {
    "shapes": {
        "disc over bowl": disc_over_bowl,
        "unequal crescents": unequal_crescents,
        "mixed shapes": mixed_shapes,
        "open ring around blobs": open_ring_around_blobs,
        "short spirals": short_spirals,
        "nested rings": nested_rings,
        "fuzzy rings": fuzzy_rings,
        "labyrinth": labyrinth,
        "two waves": partial(waves, n_waves=2, n=500, length=12, gap=2.4, shift=0, noise=0.3),
        "four waves": partial(waves, n_waves=4, n=800, length=10, gap=1.35, shift=0.25, noise=0.12),
        "linked rings": linked_rings,
        "face": face,
        "two stripes": two_stripes,
        "blobs in shell": blobs_in_shell,
        "chained rings": chained_rings,
        "window": window,
        "four arms": four_arms,
        "crossing sticks": crossing_sticks,
    },
    "sizes": {
        "discs with bridges": discs_with_bridges,
        "blobs on circles": blobs_on_circles,
        "31 blobs": partial(many_blobs, n_groups=31, spread=0.75),
        "15 tilted groups, clear": partial(tilted_groups, spread=0.03),
        "15 tilted groups, overlapping": partial(tilted_groups, spread=0.055),
        "large and small": large_and_small,
        "35 groups on lattice": groups_on_lattice,
        "60 groups on wave": groups_on_wave,
        "three small blobs": three_small_blobs,
        "unequal densities": unequal_densities,
        "long groups": long_groups,
        "tilted pair": tilted_pair,
    },
    "noise": {
        "six shapes": six_shapes,
        "eight boxes": eight_boxes,
        "arcs and discs": arcs_and_discs,
        "shapes of unequal widths": shapes_of_unequal_widths,
        "moons and blobs": moons_and_blobs,
        "six blobs": six_blobs,
    },
    "gaussians": {
        **{f"equal pair, {d} columns": partial(equal_pair, n_columns=d, distance=3.0) for d in (2, 8, 32, 64)},
        **{f"unequal pair, {d} columns": partial(unequal_pair, n_columns=d) for d in (2, 8, 32)},
        **{
            f"{c} groups, {d} columns": partial(random_mixture, n_columns=d, n_groups=c, separation=separation)
            for d, c, separation in ((3, 6, 2.6), (5, 5, 1.8), (8, 8, 1.8), (8, 4, 1.2))
        },
    },
}
BATTERY: dict[str, Maker] = {name: maker for makers in FAMILIES.values() for name, maker in makers.items()}


def make(name: str, seed: int = 0) -> Data:
    """Return a data set by name, its rows in random order."""
    rng = np.random.default_rng([seed, *name.encode()])
    X, y = BATTERY[name](rng)
    order = rng.permutation(len(X))
    return X[order], y[order]


def generated(seed: int = 0) -> Iterator[tuple[str, str, Rows, np.ndarray]]:
    """Yield family, name, rows and groups of every data set."""
    for family, makers in FAMILIES.items():
        for name in makers:
            yield family, name, *make(name, seed)


def main() -> None:
    """Print the size of every data set."""
    print(f"{'family':10} {'data set':30} {'rows':>5} {'columns':>7} {'groups':>6} {'noise':>5}")
    for family, name, X, y in generated():
        print(f"{family:10} {name:30} {len(X):5} {X.shape[1]:7} {y.max():6} {(y == 0).sum():5}")


if __name__ == "__main__":
    main()
