"""All of scikit-learn's checks of an estimator; the few that are expected to fail have a reason.

The checks of sparse matrices ask for probabilities of the four classes in their data, so there are four clusters.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from knet import Advanced, KNet

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # two iterations are too few

SHUFFLED = (
    "the check fits the weighted rows in another order than the repeated ones, and the order decides which rows are "
    "drawn for a batch; tests/test_weights.py compares fits of the same order to the bit"
)
EXPECTED_TO_FAIL = {f"check_sample_weight_equivalence_on_{kind}_data": SHUFFLED for kind in ("dense", "sparse")}
QUICK = {"n_clusters": 4, "max_iter": 2, "advanced": Advanced(steps_per_iter=20)}


@pytest.mark.filterwarnings("ignore:The training rows hold only 4 distinct rows")  # some checks repeat 4 rows
@parametrize_with_checks(
    [KNet(**QUICK), KNet(u_update="sma", **QUICK)], expected_failed_checks=lambda estimator: EXPECTED_TO_FAIL
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)
