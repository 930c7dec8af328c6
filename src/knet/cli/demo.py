"""The command `knet demo`: a small example with generated data."""

import time
from pathlib import Path
from typing import Annotated

from typer import Option, echo

from knet.cli import options as opt
from knet.cli.messages import say

EXAMPLES = "Example:  knet demo -o my-demo"
DEMO_ROWS = 30_000
FOLDER = Path("knet-demo")


def demo(
    folder: Annotated[Path, Option("--output", "-o", help="Folder for the model and the image.")] = FOLDER,
    random_state: opt.RandomState = 0,
) -> None:
    """Train on 1 % of three spirals with 30,000 rows, label all of them, save a model and an image."""
    from knet import KNet
    from knet.datasets import make_spirals
    from knet.files import whole_file
    from knet.metrics import nmi

    X, y = make_spirals(DEMO_ROWS, random_state=random_state)
    say(f"Spiral2: {len(X):,} rows in three arms, {X.shape[1]} columns.")
    started = time.perf_counter()
    model = KNet(n_clusters=3, train_size=0.01, random_state=random_state).fit(X)
    trained = time.perf_counter()
    labels = model.predict(X)
    labelled = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / "spiral2.safetensors", overwrite=True)
    iterations = f"{model.n_iter_} iteration{'s' * (model.n_iter_ != 1)}"
    echo(f"trained on {model.n_train_:,} rows in {trained - started:.1f} s ({iterations})")
    echo(f"labelled {len(labels):,} rows in {labelled - trained:.2f} s")
    echo(f"NMI with the true arms: {nmi(y, labels):.3f}")
    echo(f"model  {folder / 'spiral2.safetensors'}")
    try:
        from knet.show.plots import figure1
    except ImportError:
        say("No image: matplotlib is missing. Install it with: pip install 'knet-clustering[plots]'")
        return
    with whole_file(folder / "spiral2.png") as temporary:
        figure1(model, X).savefig(temporary, dpi=100, format="png")
    echo(f"image  {folder / 'spiral2.png'}")
