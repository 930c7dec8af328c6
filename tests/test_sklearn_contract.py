"""Every check that scikit-learn makes of an estimator; none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from knet import KNet

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # two rounds are too few

QUICK = {"max_rounds": 2, "steps_per_round": 20}


@parametrize_with_checks([KNet(**QUICK), KNet(u_update="sma", **QUICK)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)
