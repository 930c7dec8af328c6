"""The command `knet info`: print what is in a model file."""

from knet.cli import options as opt
from knet.cli.messages import print_summary

EXAMPLES = "Example:  knet info m.safetensors --json"


def info(model: opt.ModelFile, as_json: opt.Json = False) -> None:
    """Print what is in a model file."""
    opt.check_inputs(model=model)
    from knet.cli.models import load_light_model  # slow: after the check

    fitted, recipe = load_light_model(model)
    facts = {
        **fitted.facts,
        "n_components": fitted.predictor.centers.shape[1],
        "columns": [column.name for column in recipe.columns],
        **({"id_col": list(recipe.ids)} if recipe.ids else {}),
        **({"missing": list(recipe.gaps)} if recipe.gaps else {}),
    }
    print_summary(facts, as_json=as_json, to_stderr=False)
