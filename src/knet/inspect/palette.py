"""The colours of clusters, shared by the plots and the report."""

# The eight colours of Okabe and Ito, safe for colour-blind readers; the yellow is darker, to be visible on white.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#B8A800")
