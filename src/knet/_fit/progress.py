"""Progress: scikit-learn's callback API where it is installed, log records, and a bar on a terminal."""

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["CallbackSupportMixin", "RoundReporter", "RoundTasks", "with_callbacks"]

logger = logging.getLogger("knet")
logger.addHandler(logging.NullHandler())

try:  # scikit-learn >= 1.9
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(fit: Callable[..., Any]) -> Callable[..., Any]:
        """Leave `fit` as it is."""
        return fit


class RoundTasks:
    """Tell scikit-learn's callbacks when the fit and each of its rounds begins and ends."""

    def __init__(self, estimator: Any, max_rounds: int, X: Any) -> None:
        self.estimator = estimator
        self.X = X
        supported = hasattr(estimator, "_init_callback_context")
        self.fit = estimator._init_callback_context(max_subtasks=max_rounds) if supported else None
        if self.fit is not None:
            self.fit.call_on_fit_task_begin(estimator=estimator, X=X)

    def round_done(self) -> bool:
        """Report one round; return whether a callback asks to stop."""
        if self.fit is None:
            return False
        task = self.fit.subcontext(task_name="round")
        task.call_on_fit_task_begin(estimator=self.estimator, X=self.X)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, X=self.X))

    def fit_done(self) -> None:
        """Report the end of the fit."""
        if self.fit is not None:
            self.fit.call_on_fit_task_end(estimator=self.estimator, X=self.X)


class RoundReporter(AbstractContextManager["RoundReporter"]):
    """Log every round; show a bar on a terminal when `verbose`."""

    def __init__(self, verbose: int, max_rounds: int) -> None:
        self.level = logging.INFO if verbose else logging.DEBUG
        self.bar = _terminal_bar(max_rounds) if verbose and sys.stderr.isatty() else None

    def __enter__(self) -> "RoundReporter":
        """Start the bar."""
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the bar, whatever happened."""
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, row: Mapping[str, float]) -> None:
        """Report one row of the history."""
        logger.log(
            self.level,
            "round %d: HSIC %.4f, reconstruction %.4f, change of K_U %.4f, %.2f s",
            *(row[key] for key in ("round", "hsic", "reconstruction", "u_change", "seconds")),
        )
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=row["round"], hsic=row["hsic"])


def _terminal_bar(max_rounds: int) -> "Progress":
    """Make a bar on standard error; rich is imported only here, to keep `import knet` quick."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    text = "round {task.completed:.0f}/{task.total:.0f}  HSIC {task.fields[hsic]:.3f}"
    columns = (TextColumn("knet"), BarColumn(), TextColumn(text), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(file=sys.stderr))
    bar.add_task("rounds", total=max_rounds, hsic=0.0)
    return bar
