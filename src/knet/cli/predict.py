"""The commands `knet predict` and `knet embed`: label or embed the rows of a table in batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knet.cli import options as opt
from knet.cli.messages import note_unseen, print_summary, say
from knet.cli.threads import limit_threads
from knet.tables.dialect import TextOptions

if TYPE_CHECKING:
    import pyarrow as pa

PREDICT_EXAMPLES = (
    "Examples:  knet predict m.safetensors new.parquet -o labels.parquet --proba --score   |   "
    "knet predict m.safetensors 'big/*.parquet' -o labels/ --dask local:4"
)
EMBED_EXAMPLES = "Example:  knet embed m.safetensors new.csv -o embedding.npy"


def predict(
    model: opt.ModelFile,
    data: opt.Data,
    output: opt.Output = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the membership in every cluster.")] = False,
    score: Annotated[
        bool, typer.Option("--score", help="Add a score: higher is more familiar; the maximum is 0.")
    ] = False,
    embedding: Annotated[bool, typer.Option("--embedding", help="Add the embedded row.")] = False,
    reject: opt.Reject = None,
    id_col: opt.IdCol = None,
    target: opt.Target = None,
    header: opt.Header = None,
    sep: opt.Sep = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    na: opt.Na = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Label a folder or pattern of files on local:N processes, or on the cluster at tcp://host:port."
        ),
    ] = None,
    device: opt.Device = "auto",
    threads: opt.Threads = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
) -> None:
    """Label the rows of a table in batches: the table may be larger than memory.

    With --dask, many files are labelled into a folder, one output file each; a second run skips finished files.
    """
    text = opt.text_options(sep, decimal, encoding, na, header)
    asked = {"label": True, "proba": proba, "score": score, "embedding": embedding}
    results = [name for name, wanted in asked.items() if wanted]
    if dask is None:
        request = TableRequest(model, data, output, results, id_col, target, text, device, force, reject)
        request.run(threads, as_json=as_json)
        return
    if output is None or target is not None or data == "-":
        raise ValueError("--dask reads files and writes to a folder: it needs --output, and allows no --target or -.")
    from knet.cli.predict_folder import predict_folder

    summary = predict_folder(
        dask,
        model,
        data,
        output,
        results,
        reject=reject,
        id_col=id_col,
        text=text,
        device="cpu" if device == "auto" else device,
        threads=threads or 1,
        force=force,
    )
    print_summary(summary, as_json=as_json)


def embed(
    model: opt.ModelFile,
    data: opt.Data,
    output: opt.Output = None,
    id_col: opt.IdCol = None,
    header: opt.Header = None,
    sep: opt.Sep = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    na: opt.Na = None,
    device: opt.Device = "auto",
    threads: opt.Threads = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
) -> None:
    """Write the embedding of every row of a table, in batches."""
    text = opt.text_options(sep, decimal, encoding, na, header)
    request = TableRequest(model, data, output, ["embedding"], id_col, None, text, device, force)
    request.run(threads, as_json=as_json)


@dataclass(frozen=True)
class TableRequest:
    """A table, the results to compute for each of its rows (label, proba, score, embedding), and the file to write."""

    model: Path
    data: str
    output: Path | None
    results: list[str]
    id_col: str | None
    target: str | None
    text: TextOptions
    device: str
    force: bool
    reject: float | None = None

    def run(self, threads: int | None, *, as_json: bool) -> None:
        """Check the files, write the results and print the summary."""
        from knet.tables.formats import check_suffix
        from knet.tables.write import check_targets

        opt.check_inputs(self.data, self.model)
        if as_json and self.output is None:
            raise ValueError("--json prints to standard output, and so do the results. Use --output as well.")
        if self.output is not None:
            check_targets([self.output], [self.model, self.data], force=self.force)
            check_suffix(str(self.output), "write")
        with limit_threads(threads):
            summary = self._write()
        print_summary(summary, as_json=as_json)

    @property
    def _holds_numbers_only(self) -> bool:
        """Return whether ids cannot be written and were not asked for: the model alone names them."""
        return self.id_col is None and self.output is not None and self.output.suffix.lower() == ".npy"

    def _write(self) -> dict[str, Any]:
        """Write the results batch by batch; return the summary."""
        import numpy as np
        import pyarrow as pa

        from knet.cli.columns import Agreement, check_present, find_id_column, note_source
        from knet.cli.models import load_light_model
        from knet.cli.progress import count_rows
        from knet.model.blocks import columns
        from knet.tables.read import Source
        from knet.tables.write import write_batches

        model, recipe = load_light_model(self.model, self.device)
        model.predictor.threshold(self.reject)  # an error before anything is written
        counts = np.zeros(1 + model.n_clusters, np.int64)  # rejected rows, then the clusters
        started, agreement, unseen = time.perf_counter(), Agreement(self.target), Counter[str]()
        with Source(self.data, replace(self.text, prior=recipe.dialect)) as source:
            note_source(source)
            id_name = find_id_column(source, recipe, self.id_col)
            if id_name and self._holds_numbers_only:
                say(f"note: {self.output} can hold numbers only, so the ids of {id_name!r} are left out.")
                id_name = None
            check_present(source, self.target)
            types = recipe.types(source.names, id_name, self.target)

            def batches() -> Iterator[pa.Table]:
                for table in count_rows(source.batches(types), source):
                    out = columns(model.predictor, recipe.apply(table, unseen), self.results, self.reject)
                    if "label" in out:
                        counts[:] += np.bincount(out["label"] + 1, minlength=len(counts))
                        agreement.add(table, out["label"])
                    yield pa.table(({} if id_name is None else {id_name: table[id_name]}) | out)

            n_rows = write_batches(_refuse_empty(batches(), source.label), self.output, force=self.force)
        note_unseen(unseen)
        return {
            "rows": n_rows,
            "seconds": round(time.perf_counter() - started, 2),
            **({"sizes": counts[1:].tolist()} if "label" in self.results else {}),
            **({} if self.reject is None else {"rejected": int(counts[0])}),
            **agreement.scores(),
            **({} if self.output is None else {"output": str(self.output)}),
        }


def _refuse_empty(tables: Iterator[pa.Table], label: str) -> Iterator[pa.Table]:
    """Yield tables; raise an error if they have no rows, before an existing file is replaced."""
    n_rows = 0
    for table in tables:
        n_rows += len(table)
        yield table
    if n_rows == 0:
        raise ValueError(f"{label} has no rows.")
