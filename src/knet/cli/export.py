"""The command `knet export`: write a model as an ONNX graph."""

from pathlib import Path
from typing import Annotated

import typer

from knet.cli import options as opt
from knet.cli.messages import print_summary

EXAMPLES = "Example:  knet export m.safetensors --onnx m.onnx"


def export(
    model: opt.ModelFile,
    onnx: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    reject: opt.Reject = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
) -> None:
    """Write a model as one ONNX graph, from columns to label, proba and embedding."""
    opt.check_inputs(model=model)
    from knet.cli.models import load_model  # slow: after the check
    from knet.tables.formats import check_ending
    from knet.tables.write import check_targets

    check_targets([onnx], [model], force=force)
    check_ending(onnx, ".onnx")
    fitted, recipe = load_model(model)
    from knet.model.onnx import to_onnx

    fills = [
        (0.0 if column.kind == "category" else column.fill) if column.fills_gaps else None
        for column in recipe.columns
        for _ in column.outputs
    ]
    difference = to_onnx(fitted, onnx, recipe.outputs, fills, reject=reject, overwrite=force)
    summary = {"onnx": str(onnx), "inputs": recipe.outputs, "largest_difference": difference}
    print_summary(summary, as_json=as_json)
