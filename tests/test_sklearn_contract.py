"""All of scikit-learn's checks of an estimator; none is expected to fail.

The checks of sparse matrices ask for probabilities of the four classes in their data, so there are four clusters.
"""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from knet import Advanced, KNet

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # two iterations are too few

QUICK = {"n_clusters": 4, "max_iter": 2, "advanced": Advanced(steps_per_iter=20)}


@pytest.mark.filterwarnings("ignore:The training rows hold only 4 distinct rows")  # some checks repeat 4 rows
@parametrize_with_checks([KNet(**QUICK), KNet(u_update="sma", **QUICK)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
