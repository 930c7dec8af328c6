"""The paper's datasets: generated ones, prepared files, and public files with the paper's preprocessing.

Imports only `tables.whole_files`. Only `download` uses the network.
"""

from knet.datasets.generated import make_moon, make_spirals
from knet.datasets.paper import PAPER_DATASETS, load_paper
from knet.datasets.public_files import download

__all__ = ["PAPER_DATASETS", "download", "load_paper", "make_moon", "make_spirals"]
