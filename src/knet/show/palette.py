"""The colours and symbols of clusters, shared by the plots and the report."""

# The eight colours of Okabe and Ito, safe for colour-blind readers; the yellow is darker, to be visible on white.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#B8A800")

# From the ninth cluster on, the colours repeat with another symbol: matplotlib's name, and the corners of a polygon
# around 0 with a radius of about 1, y downwards; a circle has none.
MARKERS = ("o", "^", "s", "D", "v")
CORNERS: tuple[tuple[tuple[float, float], ...], ...] = (
    (),
    ((0, -1.3), (1.2, 1), (-1.2, 1)),
    ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    ((0, 1.3), (1.2, -1), (-1.2, -1)),
)
