"""Write what a run came to: metrics, pictures and summary."""

from __future__ import annotations

from typing import Any

from ofediq import __version__
from ofediq.errors import refusing
from ofediq.experiment.config import Config
from ofediq.experiment.folder import Folder
from ofediq.experiment.runner import RunOutcome
from ofediq.federation.model_file import FILE, save_model
from ofediq.federation.protocol.task import ModelSpec
from ofediq.report import Comparison, draw_comparison, draw_regrets, summarize, write_metrics
from ofediq.simulation import Result
from ofediq.storage import save_json


def write_output(
    config: Config, folder: Folder, outcome: RunOutcome, spec: ModelSpec | None = None
) -> dict[str, Any]:
    """Write metrics.parquet, figure.png, model.safetensors, regret.png (where regrets were measured), summary.json.

    The model is that of the method with the best running error, of its first seed; `spec` describes it.

    Returns the summary. It is written last: a folder with one holds everything that it promises.
    """
    summary: dict[str, Any] = {"ofediq": __version__, "folder": str(folder.path), "config": config.to_dict()}
    summary |= {"methods": {}, "naive": {}, "files": {}}
    with refusing("out", "writable", folder.path):
        if outcome.comparison is not None:
            summary |= _facts(outcome.comparison)
            summary |= summarize(outcome.comparison)
            summary["files"] = _write_files(config, folder, outcome.comparison)
            if spec is not None and (best := _best(outcome.comparison)) is not None:
                summary["files"]["model"] = FILE
                save_model(folder.path / FILE, best[1].params, spec, _card(summary, *best))
        summary |= {"notes": list(outcome.notes), "interrupted": outcome.interrupted}
        save_json(folder.summary, summary)
    if not outcome.interrupted:
        folder.close()
    return summary


def title_of(config: Config, comparison: Comparison) -> str:
    """What a picture shows, in one line."""
    result = comparison.first
    return (
        f"{config.name}: {result.model.name}, D = {result.model.dim:,}, K = {result.stream.clients:,} clients, "
        f"budget {config.budget:.3g} of FedOGD's bits"
    )


def _write_files(config: Config, folder: Folder, comparison: Comparison) -> dict[str, str]:
    title = title_of(config, comparison)
    files = {
        "config": "config.json",
        "metrics": "metrics.parquet",
        "figure": "figure.png",
        "summary": "summary.json",
    }
    write_metrics(comparison, folder.path / files["metrics"])
    draw_comparison(comparison, path=folder.path / files["figure"], title=title)
    if comparison.regrets:
        files["regret_figure"] = "regret.png"
        draw_regrets(comparison, path=folder.path / files["regret_figure"], title=title)
    return files


def _best(comparison: Comparison) -> tuple[str, Result] | None:
    """The method whose common model did best, and its first result."""
    found = [
        (key, results[0])
        for key, results in comparison.counted.items()
        if results[0].method.topology == "federated" and results[0].params.ndim == 1
    ]
    sign = -1 if comparison.metric == "accuracy" else 1
    return min(found, key=lambda pair: sign * float(pair[1].curve[-1]), default=None)


def _card(summary: dict[str, Any], key: str, result: Result) -> dict[str, Any]:
    """Where a model comes from."""
    stream = result.stream
    return {
        "ofediq": summary["ofediq"],
        "data": summary["stream"],
        "features": list(stream.dataset.feature_names),
        "labels": list(stream.dataset.label_names),
        "method": result.method.name,
        "pieces": result.method.describe(),
        "seed": result.seed,
        "results": summary["methods"][key],
    }


def _facts(comparison: Comparison) -> dict[str, Any]:
    result = comparison.first
    stream = result.stream
    return {
        "model": result.model.describe(),
        "stream": {
            "dataset": stream.dataset.name,
            "task": stream.task,
            "samples": len(stream.dataset),
            "clients": stream.clients,
            "steps": comparison.steps,
            "predictions": int(result.present.sum()),
            "target_range": list(stream.dataset.target_range) if stream.task == "regression" else None,
        },
    }
