"""Progress on standard error: a bar with rate and time left on a terminal, plain lines in a log."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Rate(ProgressColumn):
    """Steps per second; a task without a step yet is being compiled."""

    def render(self, task: Task) -> Text:
        """The rate in words."""
        if not task.completed:
            return Text("starting", style="dim")
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="dim")


class Reporter:
    """Shows the task at hand as a bar, and finished ones as lines above it."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task: TaskID | None = None
        self._name = ""

    def __enter__(self) -> Reporter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, sentence: str) -> None:
        """Write a line above the bar."""
        self._progress.console.print(sentence, markup=False, soft_wrap=True)

    def note(self, sentence: str) -> None:
        """Write something a user should know."""
        self.say(f"Note: {sentence}")

    def started(self, task: str, total: int) -> None:
        """Show a new bar."""
        self._drop()
        self._name, self._task = task, self._progress.add_task(task, total=total)

    def advanced(self, done: int) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.update(self._task, completed=done)

    def finished(self, outcome: str) -> None:
        """Replace the bar by a line."""
        self._drop()
        self.say(f"{self._name}: {outcome}")

    def stopping(self) -> None:
        """Say that an interruption was heard."""
        self.say("Stopping after this block of steps; Ctrl-C again stops at once.")

    def _drop(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
