"""The rarely used switches of a fit, grouped in one object."""

from sklearn.base import BaseEstimator


class Advanced(BaseEstimator):
    """Rarely used switches of `KNet`, most of them choices that the paper makes differently.

    Pass it as ``KNet(advanced=Advanced(...))``. `clone` copies it, and `set_params` and a grid search reach its fields
    as ``advanced__degrees`` and so on.

    Parameters
    ----------
    sigma_scale : float, default=1.0
        Multiplies the widths "auto" and "median"; the paper's synthetic data use 0.1 times the median.
    init : {"identity", "pretrain"}, default="identity"
        Start of the encoder: exactly the identity, or the paper's pre-trained autoencoder.
    u_columns : {"c-1", "c"}, default="c-1"
        Columns of U. The paper writes c; after centring, c groups need only c-1.
    reconstruction_weight : float or "balanced", default=0.0
        lambda, which multiplies the mean squared error of the autoencoder; "balanced" makes the two terms of the
        objective equal.
    degrees : {"fixed", "differentiated"}, default="fixed"
        Whether D is constant during a theta-step or part of the gradient.
    laplacian : {"auto", "dense", "blocked", "nystroem"}, default="auto"
        Form of the kernel in the U-step: stored, recomputed in blocks (exact), or low-rank. "auto" stores it if it fits
        into `memory_budget`; `history_` has the error of a low-rank form as `u_error`.
    memory_budget : float, default=512
        Maximum megabytes that the kernels of U-steps may use, with laplacian="auto".
    steps_per_iter : "auto" or int, default="auto"
        Gradient steps of a theta-step; "auto" is 200, or 20 if psi has followed a partition before.
    max_columns : int or None, default=64
        Tables with more columns are reduced to this many principal components at most, unless the encoder is your own;
        None never reduces them.
    keep_embeddings : bool, default=False
        Whether to store the embedding of a sample of rows after each iteration, for animations, as `embeddings_`.
    column_weights : tuple of float or None, default=None
        How often each column counts: distances in a column of weight 2 count as those of two equal columns. None is 1
        for all.

    Examples
    --------
    >>> from knet import Advanced, KNet
    >>> KNet(advanced=Advanced(init="pretrain")).get_params()["advanced__init"]
    'pretrain'
    """

    def __init__(
        self,
        *,
        sigma_scale: float = 1.0,
        init: str = "identity",
        u_columns: str = "c-1",
        reconstruction_weight: str | float = 0.0,
        degrees: str = "fixed",
        laplacian: str = "auto",
        memory_budget: float = 512,
        steps_per_iter: str | int = "auto",
        max_columns: int | None = 64,
        keep_embeddings: bool = False,
        column_weights: tuple[float, ...] | None = None,
    ) -> None:
        self.sigma_scale = sigma_scale
        self.init = init
        self.u_columns = u_columns
        self.reconstruction_weight = reconstruction_weight
        self.degrees = degrees
        self.laplacian = laplacian
        self.memory_budget = memory_budget
        self.steps_per_iter = steps_per_iter
        self.max_columns = max_columns
        self.keep_embeddings = keep_embeddings
        self.column_weights = column_weights
