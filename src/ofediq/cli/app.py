"""The `ofediq` command: its subcommands, and what every error looks like on a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import typer

from ofediq import __version__
from ofediq.cli.admit import admit
from ofediq.cli.certs import certs
from ofediq.cli.client import client
from ofediq.cli.data import data
from ofediq.cli.doctor import doctor
from ofediq.cli.export import export
from ofediq.cli.frontier import frontier
from ofediq.cli.methods import methods
from ofediq.cli.plan import plan
from ofediq.cli.programs import keep_programs
from ofediq.cli.report import report
from ofediq.cli.reproduce import reproduce
from ofediq.cli.rollout import promote, rollback
from ofediq.cli.run import run
from ofediq.cli.serve import serve
from ofediq.cli.sweep import sweep
from ofediq.cli.up import up
from ofediq.cli.zoo import zoo
from ofediq.errors import OFedIQError, shown, told

# The base of every complaint about options and arguments; typer exports only what derives from it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_PIPE_CLOSED = 1  # as rich says it

# Commands whose time is mostly that of JAX's compiler.
_COMPILING = ("run", "frontier", "sweep", "zoo", "reproduce")

app = typer.Typer(
    help="Online federated learning that counts every bit: plan, simulate, federate.",
    epilog="Start with: ofediq plan --budget 0.01 --dim 34826",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

# The commands, one line each, in the order of the help page.
app.command()(plan)
app.command()(run)
app.command()(frontier)
app.command()(sweep)
app.command()(zoo)
app.command()(reproduce)
app.command()(methods)
app.command()(data)
app.command()(up)
app.command()(serve)
app.command()(client)
app.command()(admit)
app.command()(promote)
app.command()(rollback)
app.add_typer(certs, name="certs")
app.command()(report)
app.command()(export)
app.command()(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ofediq {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_print_version),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line. Errors become one sentence and exit code 2, Ctrl-C and SIGTERM exit code 130.

    A pipe that nobody reads any more ends it in silence, with exit code 1.
    """
    if sys.argv[1:2] and sys.argv[1] in _COMPILING:
        keep_programs()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without a letter shows "?" in its place
    try:
        with _terminable():
            code = app(prog_name="ofediq", standalone_mode=False)
            sys.stdout.flush()  # here, where a full disk or a closed pipe still becomes a sentence
        sys.exit(code)
    except MemoryError as error:
        _fail(f"not enough memory: {str(error) or 'the system has no more'}; a smaller run needs less")
    except OFedIQError as error:
        _fail(str(error))
    except _UsageError as error:
        if not str(error):  # a group without a command has shown its help
            sys.exit(0)
        _fail(_usage_sentence(error))
    except RuntimeError as error:  # what JAX says of JAX_PLATFORMS=cuda where there is none
        if "initialize backend" not in str(error):
            raise
        _fail(f"JAX cannot compute here: {told(error)}")
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    except BrokenPipeError:  # whoever read has seen enough
        _forget_output()
        sys.exit(_PIPE_CLOSED)
    except OSError as error:
        _forget_output()
        where = "" if error.filename is None else f" ({error.filename})"
        _fail(f"the system refuses: {error.strerror or error}{where}")


def _forget_output() -> None:
    """Throw away what is left to write: at the end Python would try once more, and complain."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM, from a scheduler or a container, is heard as Ctrl-C: what keeps a run there keeps it here."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    if not main or before != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _usage_sentence(error: Any) -> str:
    """What is wrong with the words on the command line, and where to read on."""
    words = [
        word for word in sys.argv[1:2] if not word.startswith("-")
    ]  # a value that is missing has no context
    path = error.ctx.command_path if error.ctx else " ".join(("ofediq", *words))
    sentence = error.format_message().rstrip(".").replace("Value error, ", "")
    if ", unable to parse" in sentence:  # what pydantic says of a number leaves out the value
        value = error.__cause__.errors()[0]["input"]
        sentence = f"{sentence.partition(', unable to parse')[0]}, got {shown(value)}"
    return f"{sentence[:1].lower()}{sentence[1:]}; `{path} -h` shows what there is"


def _fail(sentence: str) -> NoReturn:
    typer.echo(f"ofediq: error: {' '.join(sentence.split())}", err=True)
    sys.exit(2)
