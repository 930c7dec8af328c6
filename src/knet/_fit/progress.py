"""Progress: scikit-learn's callback API if it is installed, log records, and a bar on a terminal."""

import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from rich.progress import Progress

logger = logging.getLogger("knet")
logger.addHandler(logging.NullHandler())

try:
    from sklearn import callback as sklearn_callback
except ImportError:  # scikit-learn < 1.9
    sklearn_callback = None

Fit = TypeVar("Fit", bound=Callable[..., Any])
CallbackSupportMixin: type = sklearn_callback.CallbackSupportMixin if sklearn_callback else object


def with_callbacks(fit: Fit) -> Fit:
    """Let scikit-learn call its callbacks around `fit`, if it has any."""
    return cast("Fit", sklearn_callback.with_callbacks(fit)) if sklearn_callback else fit


class IterationTasks:
    """Tell scikit-learn's callbacks when the fit and each of its iterations begins and ends."""

    def __init__(self, estimator: Any, max_iter: int, X: Any) -> None:
        self.estimator = estimator
        self.X = X
        supported = hasattr(estimator, "_init_callback_context")
        self.fit = estimator._init_callback_context(max_subtasks=max_iter) if supported else None
        if self.fit is not None:
            self.fit.call_on_fit_task_begin(estimator=estimator, X=X)

    def iteration_done(self) -> bool:
        """Report one iteration; return whether a callback asks to stop."""
        if self.fit is None:
            return False
        task = self.fit.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=self.estimator, X=self.X)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, X=self.X))

    def fit_done(self) -> None:
        """Report the end of the fit."""
        if self.fit is not None:
            self.fit.call_on_fit_task_end(estimator=self.estimator, X=self.X)


class IterationReporter(AbstractContextManager["IterationReporter"]):
    """Log every iteration; show a bar on a terminal if `verbose`."""

    def __init__(self, verbose: int, max_iter: int) -> None:
        self.level = logging.INFO if verbose else logging.DEBUG
        self.bar = _terminal_bar(max_iter) if verbose and sys.stderr.isatty() else None

    def __enter__(self) -> "IterationReporter":
        """Start the bar."""
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the bar, also after an error."""
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, row: Mapping[str, float]) -> None:
        """Report one row of the history."""
        logger.log(
            self.level,
            "iteration %d: HSIC %.4f, reconstruction %.4f, change of K_U %.4f, %.2f s",
            *(row[key] for key in ("iteration", "hsic", "reconstruction", "u_change", "seconds")),
        )
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=row["iteration"], hsic=row["hsic"])


def _terminal_bar(max_iter: int) -> "Progress":
    """Make a bar on standard error; rich is imported only here, to keep `import knet` quick."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    text = "iteration {task.completed:.0f}/{task.total:.0f}  HSIC {task.fields[hsic]:.3f}"
    columns = (TextColumn("knet"), BarColumn(), TextColumn(text), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(file=sys.stderr))
    bar.add_task("iterations", total=max_iter, hsic=0.0)
    return bar
