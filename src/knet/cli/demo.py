"""The command `knet demo`: a small example with generated data."""

import time
from pathlib import Path
from typing import Annotated

import typer

from knet.cli import options as opt
from knet.cli.messages import say

EXAMPLES = "Example:  knet demo -o my-demo"
DEMO_ROWS = 30_000


def demo(
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for the model and the image.")] = Path(
        "knet-demo"
    ),
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
    training_seconds = time.perf_counter() - started
    started = time.perf_counter()
    labels = model.predict(X)
    prediction_seconds = time.perf_counter() - started
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / "spiral2.safetensors", overwrite=True)
    iterations = f"{model.n_iter_} iteration{'s' * (model.n_iter_ != 1)}"
    typer.echo(f"trained on {model.n_train_:,} rows in {training_seconds:.1f} s ({iterations})")
    typer.echo(f"labelled {len(labels):,} rows in {prediction_seconds:.2f} s")
    typer.echo(f"NMI with the true arms: {nmi(y, labels):.3f}")
    typer.echo(f"model  {folder / 'spiral2.safetensors'}")
    try:
        from knet.show.plots import figure1
    except ImportError:
        say("No image: matplotlib is missing. Install it with: pip install 'knet-clustering[plots]'")
        return
    image = folder / "spiral2.png"
    with whole_file(image) as temporary:
        figure1(model, X).savefig(temporary, dpi=100, format="png")
    typer.echo(f"image  {image}")
