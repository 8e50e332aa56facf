"""This module draws curves and dots, as PNG and SVG, all in one style."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

GREY = "0.7"  # the color of lines that stand behind: of more than six, the others
_MOST_TICKS = 8  # at the values that there are; more would touch
POINTS = 400  # of a curve: more cannot be seen
_LINE_PIXELS = 17.0  # of a label
STYLE: dict[str, Any] = {
    "figure.figsize": (8.0, 5.0),
    "figure.dpi": 110,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.hashsalt": "gossamer",  # the same figure is the same file
}


@dataclass(frozen=True)
class Curve:
    label: str
    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    dashed: bool = False
    steps: bool = False
    color: str = ""
    dots: bool = False  # without a line between them


@dataclass(frozen=True)
class Figure:
    name: str  # of its files
    title: str
    x: str
    y: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False
    markers: bool = False
    names: Sequence[str] = ()  # of the places 0, 1, ... of the y axis, from above
    ticks: Sequence[float] = ()  # of the x axis


def draw(figure: Figure, out: Path, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    mpl: Any = import_module("matplotlib")  # takes its time, and not every experiment is drawn
    mpl.use("Agg")
    plt: Any = import_module("matplotlib.pyplot")
    with mpl.rc_context(STYLE):
        canvas, axes = plt.subplots()
        colors = plt.get_cmap("tab20").colors
        for number, curve in enumerate(figure.curves):
            x, y = thin(curve)
            style = {"color": curve.color or colors[(2 * number + (number >= 10)) % 20], "label": curve.label}
            style |= {"linestyle": "" if curve.dots else "--" if curve.dashed else "-", "linewidth": 1.4}
            style |= {"marker": "o", "markersize": 4} if figure.markers or curve.dots else {}
            axes.plot(x, y, drawstyle="steps-post" if curve.steps else "default", **style)
        axes.set(title=figure.title, xlabel=figure.x, ylabel=figure.y)
        if figure.log_x:
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis, mpl.ticker)
        if figure.log_y:
            axes.set_yscale("log")
            _plain_numbers(axes.yaxis, mpl.ticker)
        if figure.names:
            axes.set_yticks(range(len(figure.names)), figure.names)
            axes.invert_yaxis()
        if ticks := figure.ticks or _existing(figure):
            axes.set_xticks(ticks, [_written(tick) for tick in ticks])
            axes.set_xticks([], minor=True)
        if len(figure.curves) > 1 and not any(curve.dots for curve in figure.curves):
            _label_ends(axes, figure)
        elif len(figure.curves) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        written = [out / f"{figure.name}.{kind}" for kind in kinds]
        for path in written:
            canvas.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(canvas)
    return written


def _plain_numbers(axis: Any, ticker: Any) -> None:
    """Makes the ticks of a logarithmic axis numbers as people write them; between them only where decades are few."""
    low, high = axis.get_view_interval()
    subs = (1.0, 2.0, 5.0) if high / max(low, 1e-300) < 2e4 else (1.0,)
    axis.set_major_locator(ticker.LogLocator(subs=subs))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _written(value)))
    axis.set_minor_formatter(ticker.NullFormatter())


def _written(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _existing(figure: Figure) -> list[float]:
    """Returns the values that were measured, where they are few: no tick should suggest others."""
    values = sorted({float(x) for curve in figure.curves for x in curve.x})
    if not figure.markers or figure.names or len(values) > _MOST_TICKS:
        return []
    apart = np.diff(np.log(values) if figure.log_x and values[0] > 0 else values)
    return values if len(apart) and apart.min() > 0.03 * apart.sum() else []


def _label_ends(axes: Any, figure: Figure) -> None:
    """Writes each label beside the last point of its line, and moves labels apart where they would touch."""
    drawn = [(number, curve) for number, curve in enumerate(figure.curves) if len(curve.x)]
    right = max((float(curve.x[-1]) for _, curve in drawn), default=0.0)
    places = [axes.transData.transform((right, float(curve.y[-1]))) for _, curve in drawn]
    order = [int(number) for number in np.argsort([at[1] for at in places], kind="stable")]
    heights, below, above = np.array([at[1] for at in places], float), -np.inf, axes.bbox.y1
    for number in order:
        below = heights[number] = max(heights[number], below + _LINE_PIXELS)
    for number in reversed(order):  # none above the plot, where the title is
        heights[number] = min(heights[number], above)
        above = heights[number] - _LINE_PIXELS
    for place, height, (number, curve) in zip(places, heights, drawn, strict=True):
        x, y = axes.transAxes.inverted().transform((place[0], height))
        color = axes.lines[number].get_color()
        axes.text(x + 0.015, y, curve.label, transform=axes.transAxes, color=color, va="center")


def thin(curve: Curve) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """At most so many points, the first and the last among them."""
    if len(curve.x) <= POINTS:
        return curve.x, curve.y
    keep = np.unique(np.linspace(0, len(curve.x) - 1, POINTS).astype(np.int64))
    return curve.x[keep], curve.y[keep]
