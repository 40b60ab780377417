"""`ofediq_config.h`: everything that a C client must know about its task, as the preprocessor wants it."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping

import numpy as np

from ofediq.codec import FRAME_BYTES
from ofediq.codec.kit import MAX_LEVELS, magnitude_classes, packed_payload_bytes, packed_symbol_bytes
from ofediq.errors import InputError
from ofediq.federation.protocol.messages import PROTOCOL
from ofediq.federation.protocol.reports import REPORT_BYTES
from ofediq.federation.protocol.task import ModelSpec, Task
from ofediq.methods import Method
from ofediq.methods.broadcast import Delta, Whole
from ofediq.methods.client import ClientRule, Hold, Ogd
from ofediq.methods.compress import Grid, Identity, Quantize
from ofediq.methods.mixture import Mixture
from ofediq.methods.participation import Bernoulli, FixedSize, NormProportional
from ofediq.methods.ridge import DRIFTS, ridge_weight
from ofediq.models import Anchored, Dense, Model, Network, Relu
from ofediq.streams.cells import NO_NUMBER
from ofediq.streams.features import labels, numbers
from ofediq.streams.features.readings import LASTING, LOOSE

_HEAD = 2 + REPORT_BYTES + FRAME_BYTES  # low bits of the step, report, frame
_MOST_GROUPED = 1024  # symbols of a product alphabet, see `codec.stack`

Settings = dict[str, int | float | str]


def header(task: Task) -> str:
    """The configuration of `device/ofediq.c` for `task`, or `InputError` about what a device cannot do.

    >>> from ofediq.federation.protocol.task import ModelSpec
    >>> from ofediq.methods import ofediq
    >>> text = header(Task.of(ofediq(0.1, 3, 14), ModelSpec("softmax", (64,), "classification", 10), seed=0))
    >>> [line for line in text.splitlines() if "_DIM" in line]
    ['#define OFEDIQ_DIM 650']
    """
    if task.method.windows is not None:
        raise _refused(task.method, "windows that grow")
    settings: Settings = {
        "PROTOCOL": PROTOCOL,
        "TASK": f"0x{zlib.crc32(task.encode()):08X}u",
        "SEED": f"{task.seed}u",
        "PERIOD": f"{task.method.period}u",
        "PASSES": int(task.passes),
        "REPORT_EVERY": f"{task.report_every}u",
        **_model(task),
        **_client(task),
        **_participation(task),
        **_broadcast(task),
    }
    settings |= _scheme(task, settings)
    lines = (f"#define OFEDIQ_{name} {_literal(value)}" for name, value in settings.items())
    return "\n".join(
        [
            f"/* {task.method.name} with {task.dim} parameters: written by `ofediq export --device`. */",
            "#ifndef OFEDIQ_CONFIG_H",
            "#define OFEDIQ_CONFIG_H",
            *lines,
            "#endif",
            "",
        ]
    )


def _literal(value: int | float | str) -> str:
    return value.hex() if isinstance(value, float) else str(value)


def _refused(method: Method, piece: object) -> InputError:
    named = piece if isinstance(piece, str) else type(piece).__name__
    known = "OFedIQ, OFedGrid, OFedAvg, FedOMD, FedOGD"
    return InputError(
        f"`method` must be one that small devices know ({known}), got {method.name}: it has {named}"
    )


def _model(task: Task) -> Settings:
    if task.model is None:
        raise InputError("`model` must be a built-in one for a device, got None")
    model = task.model.build()
    widths = dense_widths(model.inner if isinstance(model, Anchored) else model)
    if max(widths) >= 2**16:
        raise InputError(f"`model` must have layers below 65536 units for a device, got {max(widths)}")
    return {
        "DIM": task.dim,
        "FEATURES": widths[0],
        "WIDTHS": f"{{{', '.join(map(str, widths))}}}",
        "OUTPUTS": widths[-1],
        "UNITS": sum(widths[1:]),
        "WIDEST": max(widths[1:]),
        "CLASSES": task.model.classes or 0 if model.task == "classification" else 0,
        "L2": float(getattr(model, "l2", 0.0)),
        **_features(task.model, widths[0]),
        **({"ANCHOR_LIMIT": model.limit} if isinstance(model, Anchored) else {}),
    }


def dense_widths(model: Model) -> tuple[int, ...]:
    """Numbers of a sample, then units of each layer, of a model that devices can run; else `InputError`.

    >>> from ofediq.models import mlp_regressor
    >>> dense_widths(mlp_regressor(5, (8, 4)))
    (5, 8, 4, 1)
    """
    rule = "`model` must be made of dense layers with biases and ReLU between them, for a device"
    if not isinstance(model, Network) or model.places is not None:
        raise InputError(f"{rule}, got {model.name!r}")
    for number, layer in enumerate(model.layers):
        if layer != Relu() if number % 2 else not (isinstance(layer, Dense) and layer.bias):
            raise InputError(f"{rule}, got {layer}")
    if len(model.layers) % 2 == 0:
        raise InputError(f"{rule}, got {model.layers[-1]} at the end")
    return (model.stages[0].matrix[0], *(stage.outputs[0] for stage in model.stages))


def _features(spec: ModelSpec, columns: int) -> Settings:
    """What `device/ofediq_features.h` must know of a pipeline."""
    pipeline = spec.pipeline
    if pipeline is None:
        return {"PIPELINE": 0, "READINGS": columns}
    readings, target = pipeline.readings, pipeline.target
    if target.ahead > 1:
        raise InputError(f"`horizon` in [features] must be 1 for a device, got {target.ahead}")
    known = labels if isinstance(target, labels.LabelTarget) else numbers
    whole = {"auto": "OFEDIQ_BY_EVIDENCE", "none": "OFEDIQ_NO_FORECAST"}
    chosen = whole.get(target.baseline) or known.FORECASTS.index(target.baseline)
    places = {name: place for place, name in enumerate(readings.names)}
    made: Settings = {
        "PIPELINE": 1,
        "READINGS": len(readings.names),
        "NUMBERS": len(readings.names) - len(readings.flags),
        "FLAGS": _listed(int(name in readings.flags) for name in readings.names),
        "GAP_COUNT": len(readings.gaps),
        "GAPS": _listed(places[name] for name in readings.gaps),
        "DIFFERENCES": int(readings.differences),
        "ROBUST": int(pipeline.scaling == "robust"),
        "HORIZON": pipeline.horizon,
        "LIMIT": pipeline.limit,
        "NO_NUMBER": NO_NUMBER,
        "CALENDAR": int(pipeline.calendar),
        "SEASON": target.season,
        "LAGS": target.lags,
        "BASELINE": chosen,
        "FORECASTS": len(known.FORECASTS),
        "ANCHORS": len(pipeline.anchors),
        "MOST_TRIALS": known._TRIALS,
    }
    if isinstance(target, labels.LabelTarget):
        made["DEPTH"] = max(1, target.lags, target.season)
        made["PRIOR"], made["BLENDS"] = _listed(np.log(labels._PRIOR)), _listed(labels.BLENDS)
        return made | {"PRIOR_HITS": labels._PRIOR_HITS, "PRIOR_TRIALS": labels._PRIOR_TRIALS}
    made["DEPTH"] = target.depth
    made["PRIOR"], made["FAR_PRIOR"] = (_listed(prior) for prior in numbers._LOG_PRIOR)
    made["UNORDERED"], made["MARGINS"] = _listed(numbers._UNORDERED), _listed(numbers._MARGINS)
    made["LASTING"], made["LOOSE"] = LASTING, LOOSE
    made["FAR"], made["FAR_NEEDED"] = numbers._FAR, numbers._FAR_NEEDED
    made["FAR_ERROR"] = numbers._FAR_ERROR
    made["FADES"], made["LARGEST"] = _listed(numbers.FADES), numbers._LARGEST
    return made | {"CHANGES_NEEDED": numbers._CHANGES_NEEDED}


def _listed(values: Iterable[float]) -> str:
    return f"{{{', '.join(_literal(value.item() if isinstance(value, np.generic) else value) for value in values)}}}"


def _mixture(task: Task, rule: Mixture) -> Settings:
    """What `device/ofediq_mixture.h` must know."""
    if task.model is None or task.model.pipeline is None or not rule.own:
        raise _refused(task.method, rule)
    prior = np.log(np.asarray(rule.prior, np.float32))
    made: Settings = {
        "EXPERTS": len(rule.prior),
        "LOG_PRIOR": _listed(prior),
        "MIXTURE_HORIZON": rule.horizon,
        "RIDGE": int(rule.outputs > 0),
        "OWN_STEP": rule.own,
    }
    if rule.outputs:
        made |= {"DRIFTS": _listed(DRIFTS), "RIDGE_WEIGHT": ridge_weight(rule.outputs)}
    return made


def _client(task: Task) -> Settings:
    rule, mixture = task.method.client, Settings()
    if type(rule) is Mixture:
        mixture, rule = _mixture(task, rule), rule.inner
    return {"EXPERTS": 0, **mixture, **_steps(task, rule)}


def _steps(task: Task, rule: ClientRule) -> Settings:
    if type(rule) is Ogd and rule.descent is not None:
        return {"MOVES": int(task.method.period > 1), "STEP_SIZE": rule.step_size}
    if type(rule) is Hold:
        return {"MOVES": 0}
    raise _refused(task.method, rule)


def _participation(task: Task) -> Settings:
    rule = task.method.participation
    if type(rule) is Bernoulli and isinstance(rule.rate, float):
        return {"PARTICIPATION": "OFEDIQ_BERNOULLI", "RATE": rule.rate}
    if type(rule) is FixedSize:
        return {"PARTICIPATION": "OFEDIQ_FIXED_SIZE", "RATE": rule.rate}
    if type(rule) is NormProportional:
        return {"PARTICIPATION": "OFEDIQ_BY_NORM", "SPREAD": rule.spread, "FLOOR": rule.floor}
    raise _refused(
        task.method, f"{type(rule).__name__} with a rate for each client" if type(rule) is Bernoulli else rule
    )


def _broadcast(task: Task) -> Settings:
    method, scalars = task.method, sorted(task.method.server.scalars)
    if method.server.vectors or method.beside or method.client.receipts:
        raise _refused(method, "more than a model and an update to send")
    known: Settings = {"SCALARS": len(scalars)}
    signal = method.compress.signal or method.participation.signal
    if signal is not None:
        known["SIGNAL"] = scalars.index(signal)
    if type(method.broadcast) is Whole:
        return {**known, "DELTA": 0}
    if type(method.broadcast) is not Delta:
        raise _refused(method, method.broadcast)
    return {**known, "DELTA": 1, **_quantizer(method.broadcast.quantizer, "DELTA_")}


def _quantizer(piece: Quantize, prefix: str = "") -> Settings:
    return {
        f"{prefix}LEVELS": piece.levels,
        f"{prefix}BLOCKS": piece.blocks,
        f"{prefix}NORM_BITS": piece.norm_bits,
        f"{prefix}ENTROPY": int(piece.coding == "entropy"),
    }


def _scheme(task: Task, known: Mapping[str, int | float | str]) -> Settings:
    piece, dim, bytes_sent = task.method.compress, task.dim, 4 * task.dim
    made: Settings
    if type(piece) is Identity:
        made = {"SCHEME": "OFEDIQ_RAW", "LEVELS": 1, "BLOCKS": 1, "ENTROPY": 0}
    elif type(piece) is Quantize:
        made = {"SCHEME": "OFEDIQ_QUANTIZED", **_quantizer(piece)}
        bytes_sent = min(bytes_sent, packed_payload_bytes(dim, piece.levels, piece.blocks, piece.norm_bits))
    elif type(piece) is Grid:
        made = {"SCHEME": "OFEDIQ_GRID", "LEVELS": MAX_LEVELS, "BLOCKS": 1, "ENTROPY": 1}
        made["GRID_SPREAD"] = piece.spread
        bytes_sent = packed_symbol_bytes(dim, MAX_LEVELS) + 4
    else:
        raise _refused(task.method, piece)
    levels = [int(made["LEVELS"]), int(known.get("DELTA_LEVELS", 1))]
    blocks = max(int(made["BLOCKS"]), int(known.get("DELTA_BLOCKS", 1)))
    made["ENTROPY_BOTH"] = int(bool(made["ENTROPY"]) or bool(known.get("DELTA_ENTROPY", 0)))
    made["NORMS"] = blocks
    made["CLASSES_OF_SYMBOLS"] = max(magnitude_classes(each)[0].size for each in levels)
    made["JOINT"] = min(_MOST_GROUPED, math.ceil(dim / 16)) + 1
    slack = (8 + 1 + int(made["CLASSES_OF_SYMBOLS"])) if made["ENTROPY"] else 0
    made["SLACK"] = slack
    made["SAID"] = _HEAD + bytes_sent + slack
    return made
