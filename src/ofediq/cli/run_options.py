"""The options of `ofediq run`, one type each: how they are spelt, and what the help says about them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_DATA, _LEARNING = "Data and clients", "Methods and model"

Dataset = Annotated[
    str | None,
    typer.Option(
        help="Named dataset; `ofediq data` lists them.", show_default="digits", rich_help_panel=_DATA
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(help="Your own .csv, .parquet or .npz; needs --target.", rich_help_panel=_DATA),
]
Target = Annotated[str | None, typer.Option(help="Column of the file to predict.", rich_help_panel=_DATA)]
ClientColumn = Annotated[
    str | None, typer.Option(help="Column that says whose row it is.", rich_help_panel=_DATA)
]
TimeColumn = Annotated[str | None, typer.Option(help="Column to sort by.", rich_help_panel=_DATA)]
Option = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="More for loading the data, such as missing=drop; repeatable.",
        rich_help_panel=_DATA,
    ),
]
Scaling = Annotated[
    str | None,
    typer.Option(
        help="Features: auto, none, minmax, standard or authors.",
        show_default="auto",
        rich_help_panel=_DATA,
    ),
]
Clients = Annotated[
    int | None,
    typer.Option(help="Number of clients.", show_default="1000, or those of the file", rich_help_panel=_DATA),
]
Steps = Annotated[
    int | None,
    typer.Option(
        help="Number of time steps.", show_default="300, or those of the file", rich_help_panel=_DATA
    ),
]
Partition = Annotated[
    str | None,
    typer.Option(
        help="Who sees what: random, passes, dirichlet, label, column or sequential.",
        show_default="random; passes for authors; column or sequential for a file with such columns",
        rich_help_panel=_DATA,
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(help="Concentration of dirichlet.", show_default="0.5", rich_help_panel=_DATA),
]
Labels = Annotated[
    int | None,
    typer.Option(help="Labels per client of label.", show_default="2", rich_help_panel=_DATA),
]
Methods = Annotated[
    str | None,
    typer.Option(
        help="Any of fedogd, ofedavg, fedomd, ofediq, ofedgrid, ogd, local, with commas.",
        show_default="the first four",
        rich_help_panel=_LEARNING,
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(
        help="Allowed uplink bits as a fraction of FedOGD's, in (0, 1].",
        show_default="0.01",
        rich_help_panel=_LEARNING,
    ),
]
StepSize = Annotated[
    float | None, typer.Option(help="Learning rate.", show_default="0.01", rich_help_panel=_LEARNING)
]
Preset = Annotated[
    str | None,
    typer.Option(
        help="paper: descent, Bernoulli sampling, local steps; "
        "authors: Adam, fixed sampling, frozen weights.",
        show_default="paper",
        rich_help_panel=_LEARNING,
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        help="How the server moves the model: descend, adam, or coin (needs no step size).",
        show_default="the preset's",
        rich_help_panel=_LEARNING,
    ),
]
Planner = Annotated[
    str | None,
    typer.Option(
        help="OFedIQ's parameters: paper (Algorithm 3) or exact (the optimum).",
        show_default="paper",
        rich_help_panel=_LEARNING,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(help="auto, linear, softmax, mlp or cnn.", show_default="auto", rich_help_panel=_LEARNING),
]
Hidden = Annotated[
    str | None,
    typer.Option(help="Layer sizes of the mlp.", show_default="64,64", rich_help_panel=_LEARNING),
]
Seeds = Annotated[
    int | None, typer.Option(help="Number of seeds.", show_default="1", rich_help_panel=_LEARNING)
]
Seed = Annotated[
    int | None, typer.Option(help="The first seed.", show_default="0", rich_help_panel=_LEARNING)
]
Regret = Annotated[
    bool | None,
    typer.Option(
        "--regret/--no-regret",
        help="Measure the regret.",
        show_default="if the model is convex",
        rich_help_panel=_LEARNING,
    ),
]
Config = Annotated[
    Path | None, typer.Option(help="Repeat a run from its config.json; other options override it.")
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for the files.", show_default="a new runs/DATASET-PRESET")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the run in the folder.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the unfinished run in the folder.")]
CheckpointEvery = Annotated[
    int | None,
    typer.Option(help="Save the state every so many steps.", show_default="when interrupted"),
]
Devices = Annotated[int | None, typer.Option(help="Devices to split the clients over.", show_default="1")]
Tracker = Annotated[
    str, typer.Option(help="Also give the curves to an experiment tracker: tensorboard or mlflow.")
]
TrackerFolder = Annotated[
    str | None,
    typer.Option(
        help="Where it keeps them; for mlflow also the address of a server.",
        show_default="runs/tensorboard, runs/mlflow",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
