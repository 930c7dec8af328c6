"""What each cluster has in each column: the numbers of `plots.profiles` and of the table of profiles in the report."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats
from knet.explore.features import MISSING, Feature
from knet.explore.samples import Sample

IQR_OF_NORMAL = 1.349  # interquartile range of a normal distribution, in standard deviations


@dataclass(frozen=True)
class Profile:
    """What the clusters have in a column of numbers, or in a category, by the rows that have a value in it."""

    name: str  # of the column, or "column = category"
    explained: float  # share of the column's variance that the clusters explain
    missing: float  # share of the rows that have no value
    overall: str  # median of all rows in the units of the data, or share of rows
    texts: list[str]  # the same for each cluster that has rows
    deviations: Floats  # differences between each cluster and all rows, in standard deviations


def profiles(rows: Sample, features: Sequence[Feature], importance: Floats, max_profiles: int) -> list[Profile]:
    """Return about `max_profiles` at most, those of the columns that the clusters explain best first.

    `importance` is the share of the variance of each column of the table that the clusters explain. All categories of a
    column are listed, or none.
    """
    groups = [rows.labels == cluster for cluster in np.unique(rows.labels)]
    found: list[Profile] = []
    for number in np.argsort(-importance, kind="stable"):
        feature, explained = features[number], float(importance[number])
        if len(found) + len(feature.places) > max_profiles and found:
            break
        for place, name in zip(feature.places, feature.names(), strict=True):
            found.append(_profile(name, explained, feature, rows.X[:, place], groups))
    return found


def _profile(name: str, explained: float, feature: Feature, values: Floats, groups: list[NDArray[np.bool_]]) -> Profile:
    """Return the profile of a column of numbers: means of 0 and 1 are shares, others have medians."""
    text, present = (percent if feature.is_share else feature.middle), ~np.isnan(values)
    known = values[present]
    spread = 0.0 if feature.is_share or not len(known) else float(np.ptp(np.quantile(known, [0.25, 0.75])))
    overall, own = _middle(known, feature), [_middle(values[group & present], feature) for group in groups]
    unit = spread / IQR_OF_NORMAL or (float(known.std()) if len(known) else 0.0) or 1.0
    deviations = np.nan_to_num(np.array(own) - overall) / unit
    return Profile(name, explained, 1 - float(present.mean()), text(overall), list(map(text, own)), deviations)


def _middle(values: Floats, feature: Feature) -> float:
    """Return the share of rows, or the median; NaN without values."""
    if not len(values):
        return np.nan
    return float(np.mean(values) if feature.is_share else np.median(values))


def percent(share: float) -> str:
    """Return a share in percent, with a decimal if it is small; a dash for NaN."""
    if share != share:
        return MISSING
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"
