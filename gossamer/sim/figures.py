"""This module draws curves and dots, as PNG and SVG, all in one style."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
    at_ends: bool = False  # labels stand at the ends of their lines, not in a legend


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
        if figure.log_y:
            axes.set_yscale("log")
        if figure.names:
            axes.set_yticks(range(len(figure.names)), figure.names)
            axes.invert_yaxis()
        if figure.ticks:
            axes.set_xticks(figure.ticks, [f"{tick:g}" for tick in figure.ticks])
        if figure.at_ends:
            _label_ends(axes, figure, mpl.ticker)
        elif len(figure.curves) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        written = [out / f"{figure.name}.{kind}" for kind in kinds]
        for path in written:
            canvas.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(canvas)
    return written


def _label_ends(axes: Any, figure: Figure, ticker: Any) -> None:
    """Writes each label beside the last point of its line, and moves labels apart where they would touch. Ticks of a
    logarithmic axis are numbers as people write them."""
    if figure.log_y:
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    right = max(float(curve.x[-1]) for curve in figure.curves)
    places = [axes.transData.transform((right, float(curve.y[-1]))) for curve in figure.curves]
    before = -np.inf
    for number in np.argsort([at[1] for at in places]):
        at = places[number]
        before = max(float(at[1]), before + _LINE_PIXELS)
        x, y = axes.transAxes.inverted().transform((at[0], before))
        color = axes.lines[number].get_color()
        axes.text(x + 0.015, y, figure.curves[number].label, transform=axes.transAxes, color=color, va="center")


def thin(curve: Curve) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """At most so many points, the first and the last among them."""
    if len(curve.x) <= POINTS:
        return curve.x, curve.y
    keep = np.unique(np.linspace(0, len(curve.x) - 1, POINTS).astype(np.int64))
    return curve.x[keep], curve.y[keep]
