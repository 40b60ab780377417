"""Somebody who listens to an experiment."""

import os
import signal


class Listener:
    """Writes down what it hears, and asks for an interruption at a chosen place."""

    def __init__(self, interrupt: tuple[str, int] | None = None) -> None:
        self.heard: list[str] = []
        self.interrupt, self.task = interrupt, ""

    def note(self, sentence: str) -> None:
        self.heard.append(sentence)

    def started(self, task: str, total: int) -> None:
        self.task = task
        self.heard.append(f"{task} of {total}")

    def advanced(self, done: int) -> None:
        if self.interrupt is not None and self.task == self.interrupt[0] and done >= self.interrupt[1]:
            self.interrupt = None
            os.kill(os.getpid(), signal.SIGINT)

    def finished(self, outcome: str) -> None:
        self.heard.append(outcome)

    def stopping(self) -> None:
        self.heard.append("stopping")
