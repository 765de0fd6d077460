"""Plots of the activity, as SVG and PNG: each by itself, and all of them on one page (`activity`).

Colours are Okabe and Ito's, which people tell apart however they see colours; what is told by colour is told by words,
too. Axes begin at zero, times are UTC. Nothing is drawn that says nothing: no frames, no ticks without a number.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib import dates
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, MaxNLocator

from octoloom.spark.activity import LENGTH_NAMES

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
INK, SOFT, LINE = "#1f2933", "#66727f", "#dfe4ea"
COLOURS = {"applied": BLUE, "rejected": ORANGE, "superseded": PURPLE, "quarantined": RED, "forgotten": SOFT}
BARS_MAX = 12
"""So many of the busiest devices are drawn."""
LABEL_MAX = 24
DPI = 144
PAGE = "activity"

STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlepad": 26,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "ytick.major.size": 0,
    "xtick.major.size": 3,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "octoloom",
    "timezone": "UTC",
}

_dates: Any = dates
"""It has no types."""

Report = dict[str, "pa.Table"]
Draw = Callable[["Axes", Report], None]


def write_plots(report: Report, directory: str | Path, names: Iterable[str] | None = None) -> list[Path]:
    """The plots of these names, or all, into files that are called so."""
    chosen = [*PLOTS, PAGE] if names is None else list(names)
    written = []
    with mpl.rc_context(STYLE):
        for name in chosen:
            figure = _page(report) if name == PAGE else Figure(figsize=(9, 4.6), layout="constrained")
            if name != PAGE:
                PLOTS[name](figure.add_subplot(), report)
            written += _save(figure, Path(directory) / name)
    return written


def _page(report: Report) -> Figure:
    """All of them."""
    figure = Figure(figsize=(16, 14), layout=ConstrainedLayoutEngine(w_pad=0.25, h_pad=0.2))
    figure.suptitle(_headline(report), x=0.012, ha="left", fontsize=15, color=INK)
    for number, draw in enumerate(PLOTS.values()):
        draw(figure.add_subplot(3, 2, number + 1), report)
    return figure


def _save(figure: Figure, path: Path) -> list[Path]:
    written = []
    for kind in ("svg", "png"):
        content = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(content, format=kind, dpi=DPI, facecolor="white", metadata=metadata)
        target = path.with_suffix(f".{kind}")
        part = target.with_name(f".{target.name}")
        part.write_bytes(content.getvalue())
        os.replace(part, target)
        written.append(target)
    return written


def _headline(report: Report) -> str:
    totals = report["totals"].to_pylist()[0]
    parts = ("events", "changes", "spaces", "devices", "sessions")
    return "   ".join(f"{totals[part]:,} {part if totals[part] != 1 else part[:-1]}" for part in parts)


# The plots.


def draw_rates(axes: Axes, report: Report) -> None:
    rates = report["rates"]
    times, scale = _times(rates), 60 / _width_s(report)
    applied, rejected = _numbers(rates, "applied") * scale, _numbers(rates, "rejected") * scale
    others = _numbers(rates, "events") * scale - applied - rejected
    layers = [("applied", applied, BLUE), ("rejected", rejected, ORANGE)]
    if others.any():
        layers.append(("neither", others, RED))
    _stack(axes, times, layers, _width_s(report))
    axes.set_title("Events per minute")
    _time_axis(axes, times, _width_s(report))
    _legend(axes)


_PERCENTILES = (
    ("p99_ms", "99 % of the events are faster", RED),
    ("p90_ms", "90 % are", ORANGE),
    ("p50_ms", "half of them are", BLUE),
)


def draw_latency(axes: Axes, report: Report) -> None:
    latency = report["latency"]
    times = _times(latency) + _half(report)
    for name, label, colour in _PERCENTILES:
        values = _numbers(latency, name)
        shape = "o-" if np.isfinite(values).sum() < 30 else "-"
        axes.plot(times, values, shape, color=colour, linewidth=1.8, markersize=3.5, label=label)
    axes.set_title("Latency from device to commit, ms")
    axes.set_ylim(bottom=0)
    _time_axis(axes, _times(latency), _width_s(report))
    _legend(axes)


def draw_outcomes(axes: Axes, report: Report) -> None:
    rows = report["outcomes"].to_pylist()
    names = [row["outcome"] or "unknown" for row in rows]
    bars = axes.barh(names, [row["events"] for row in rows], color=[COLOURS.get(name, SOFT) for name in names])
    axes.bar_label(bars, [f"{row['events']:,}  ({row['share']:.1%})" for row in rows], padding=5, color=INK)
    axes.set_title("What became of the events")
    _bar_axis(axes, len(rows), 3)


def draw_busiest(axes: Axes, report: Report) -> None:
    rows = report["busiest"].to_pylist()[:BARS_MAX]
    names = [_cut(row["device"]) for row in rows]
    places = np.arange(len(rows))
    left = np.zeros(len(rows))
    for label, colour in (("applied", BLUE), ("rejected", ORANGE), ("neither", RED)):
        sizes = np.array([_part(row, label) for row in rows], float)
        if sizes.any() or label == "applied":
            axes.barh(places, sizes, left=left, color=colour, label=label)
        left += sizes
    for place, row in zip(places, rows, strict=True):
        axes.annotate(f"{row['events']:,}", (row["events"], place), (5, 0), textcoords="offset points", va="center")
    axes.set_yticks(places, names)
    axes.set_title("Events of the busiest devices")
    _bar_axis(axes, len(rows), 6)
    _legend(axes)


def draw_sessions(axes: Axes, report: Report) -> None:
    found = {row["length"]: row for row in report["session_lengths"].to_pylist()}
    there = [number for number, name in enumerate(LENGTH_NAMES) if name in found]
    nothing = {"sessions": 0, "ended": 0, "open": 0}
    shown = LENGTH_NAMES[there[0] : there[-1] + 1] if there else LENGTH_NAMES[:1]
    rows = [found.get(name, {"length": name, **nothing}) for name in shown]
    places = np.arange(len(rows))
    ended, still = (np.array([row[name] for row in rows], float) for name in ("ended", "open"))
    axes.bar(places, ended, 0.75, color=GREEN, label="ended")
    axes.bar(places, still, 0.75, bottom=ended, color=SKY, label="still there")
    for place, row in zip(places, rows, strict=True):
        where = (place, row["sessions"])
        axes.annotate(f"{row['sessions']:,}", where, (0, 4), textcoords="offset points", ha="center")
    axes.set_xticks(places, [row["length"] for row in rows])
    axes.set_xlim(-0.6, max(len(rows), 4) - 0.4)
    axes.set_yticks([])
    axes.margins(y=0.12)
    axes.set_title("Sessions by length")
    _legend(axes)


def draw_present(axes: Axes, report: Report) -> None:
    rates = report["rates"]
    times, present = _times(rates), _numbers(rates, "present")
    edges = np.append(times, times[-1] + 2 * _half(report))
    axes.stairs(present, _dates.date2num(edges), color=GREEN, fill=True, alpha=0.25)
    axes.stairs(present, _dates.date2num(edges), color=GREEN, linewidth=1.8)
    axes.set_title("Devices that are there")
    axes.set_ylim(0, max(float(present.max()), 1) * 1.1)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    _time_axis(axes, times, _width_s(report))
    _subtitle(axes, "counted once per space")


PLOTS: dict[str, Draw] = {
    "rates": draw_rates,
    "latency": draw_latency,
    "outcomes": draw_outcomes,
    "busiest": draw_busiest,
    "sessions": draw_sessions,
    "present": draw_present,
}


# How they look.


def _stack(axes: Axes, times: Any, layers: Sequence[tuple[str, Any, str]], width_s: int) -> None:
    bottom = np.zeros(len(times))
    edges = _dates.date2num(np.append(times, times[-1] + np.timedelta64(width_s, "s")))
    for label, sizes, colour in layers:
        axes.stairs(bottom + sizes, edges, baseline=bottom, fill=True, color=colour, label=label, linewidth=0)
        bottom = bottom + sizes
    axes.set_ylim(0, max(float(bottom.max()) * 1.05, 1))


def _time_axis(axes: Axes, times: Any, width_s: int) -> None:
    locator = _dates.AutoDateLocator(minticks=3, maxticks=8)
    axes.xaxis_date()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(_dates.ConciseDateFormatter(locator))
    axes.set_xlim(times[0], times[-1] + np.timedelta64(width_s, "s"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))
    axes.grid(axis="y")


def _bar_axis(axes: Axes, count: int, count_min: int) -> None:
    """The longest on top, room for the numbers at the ends, and bars that are not fat when there are few."""
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_ylim(max(count, count_min) - 0.5, -0.5)
    axes.margins(x=0.18)


def _legend(axes: Axes) -> None:
    """A row between the title and the plot."""
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        borderpad=0,
        ncols=len(labels),
        handlelength=1,
        handleheight=0.8,
        handletextpad=0.5,
        columnspacing=1.4,
        labelcolor=SOFT,
    )


def _subtitle(axes: Axes, words: str) -> None:
    axes.annotate(words, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", color=SOFT)


def _times(table: pa.Table) -> Any:
    return np.array([moment.replace(tzinfo=None) for moment in table.column("begin").to_pylist()], "datetime64[ms]")


def _width_s(report: Report) -> int:
    width: int = report["totals"].column("width_s")[0].as_py()
    return width


def _half(report: Report) -> Any:
    return np.timedelta64(_width_s(report) * 500, "ms")


def _numbers(table: pa.Table, name: str) -> Any:
    """Floats, with a hole where there is nothing."""
    return np.array([np.nan if value is None else value for value in table.column(name).to_pylist()], float)


def _part(row: dict[str, Any], label: str) -> int:
    size: int = row["events"] - row["applied"] - row["rejected"] if label == "neither" else row[label]
    return size


def _cut(name: str) -> str:
    return name if len(name) <= LABEL_MAX else name[: LABEL_MAX - 1] + "…"
