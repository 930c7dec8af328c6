"""The command `knet export`: write a model as an ONNX graph."""

from pathlib import Path
from typing import Annotated

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_summary

EXAMPLES = "Example:  knet export m.safetensors -o m.onnx"


def export(
    *,
    model: opt.ModelFile,
    output: Annotated[Path, Option("--output", "-o", help="The .onnx file to write.")],
    reject: opt.Reject = None,
    run: opt.RunOptions,
) -> None:
    """Write a model as one ONNX graph, from columns to label, proba and embedding."""
    opt.check_inputs(model=model)
    run.check_outputs([(output, (".onnx",))], model)
    from knet.cli.models import load_light_model  # slow: after the checks

    recipe = load_light_model(model)[1]
    from knet import load  # slower still: after the file has been checked
    from knet.model.onnx import to_onnx

    with run.limited_threads():
        difference = to_onnx(load(model), output, recipe.outputs, reject=reject, overwrite=run.force)
    summary = {"output": str(output), "inputs": recipe.outputs, "largest_difference": difference}
    print_summary(summary, as_json=run.as_json)
