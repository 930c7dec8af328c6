"""Progress: scikit-learn's callback API if it is installed, log records, and a bar or lines on standard error."""

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


class _NoCallbacks:
    """Stands for scikit-learn's mixin; `object` cannot be the first of several base classes."""


CallbackSupportMixin: type = sklearn_callback.CallbackSupportMixin if sklearn_callback else _NoCallbacks


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
    """Log every iteration; if `verbose`, also show a bar on a terminal, and lines in a notebook or a pipe.

    The lines are written only if the user's logging does not show the log records already.
    """

    def __init__(self, verbose: int, max_iter: int) -> None:
        self.level = logging.INFO if verbose else logging.DEBUG
        self.bar = _terminal_bar(max_iter) if verbose and sys.stderr.isatty() else None
        self.writes_lines = bool(verbose) and self.bar is None and not _logging_shows(self.level)

    def __enter__(self) -> "IterationReporter":
        """Start the bar."""
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the bar, also after an error; training often ends before `max_iter`, and then the bar is full."""
        if self.bar is not None:
            if kind is None:
                self.bar.update(self.bar.task_ids[0], total=self.bar.tasks[0].completed)
            self.bar.stop()

    def __call__(self, row: Mapping[str, float]) -> None:
        """Report one row of the history."""
        text = _describe(row)
        logger.log(self.level, text)
        if self.writes_lines:
            sys.stderr.write(f"{text}\n")
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=row["iteration"], hsic=row["hsic"])


def _describe(row: Mapping[str, float]) -> str:
    """Return an iteration as a line of text; the reconstruction is 0 without a decoder, and then left out."""
    reconstruction = f"reconstruction {row['reconstruction']:.4f}, " if row["reconstruction"] else ""
    return (
        f"iteration {row['iteration']:.0f}: HSIC {row['hsic']:.4f}, {reconstruction}"
        f"change of K_U {row['u_change']:.4f}, {row['seconds']:.2f} s"
    )


def _logging_shows(level: int) -> bool:
    """Return whether the user has set up logging for records of this level."""
    handlers = [*logger.handlers, *logging.getLogger().handlers]
    return logger.isEnabledFor(level) and any(not isinstance(handler, logging.NullHandler) for handler in handlers)


def _terminal_bar(max_iter: int) -> "Progress":
    """Make a bar on standard error; rich is imported only here, to keep `import knet` quick."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    text = "iteration {task.completed:.0f}/{task.total:.0f}  HSIC {task.fields[hsic]:.3f}"
    columns = (TextColumn("knet"), BarColumn(), TextColumn(text), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(file=sys.stderr))
    bar.add_task("iterations", total=max_iter, hsic=0.0)
    return bar
