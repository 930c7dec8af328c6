"""KNet from a flat list of parameters, for tests that vary the advanced ones too."""

from knet import Advanced, KNet

ADVANCED = set(Advanced().get_params())


def make_knet(*args, **params):
    """Return KNet(*args, **params), with the parameters that belong to `Advanced` moved there."""
    advanced = {name: params.pop(name) for name in ADVANCED & params.keys()}
    return KNet(*args, **params, **({"advanced": Advanced(**advanced)} if advanced else {}))
