"""This module draws a plan: a bar for every client, cut into its websites, and the bound that no plan can beat."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.arrays import I64
from gossamer.errors import ConfigError
from gossamer.scan.history import Outlook
from gossamer.scan.task import Plan, Task
from gossamer.sim.figures import STYLE

_NAMED = 0.07  # of the width: bars this long carry their website's name


def draw(path: Path, plan: Plan, task: Task, column: I64, ahead: Outlook) -> None:
    if path.suffix not in (".png", ".svg"):
        raise ConfigError(f"--figure {path}: name a .png or an .svg file")
    try:
        mpl: Any = import_module("matplotlib")
    except ImportError:
        raise ConfigError("--figure needs matplotlib: pip install 'gossamer-crawler[lab]'") from None
    mpl.use("Agg")
    plt: Any = import_module("matplotlib.pyplot")
    with mpl.rc_context(STYLE):
        canvas, axes = plt.subplots(figsize=(9.0, 1.6 + 0.38 * task.clients))
        shades = plt.get_cmap("tab20").colors
        for j in range(task.clients):
            own = np.flatnonzero(plan.owner == j)
            own = own[np.argsort(-task.times_s[own, j], kind="stable")]
            widths = task.times_s[own, j]
            starts = task.busy_s[j] + widths.cumsum() - widths
            colors = [shades[(2 * int(column[j]) + k % 2) % 20] for k in range(len(own))]
            axes.barh(j, widths, left=starts, height=0.72, color=colors, edgecolor="white", linewidth=0.4)
            for i, start, width in zip(own.tolist(), starts.tolist(), widths.tolist(), strict=True):
                if width > _NAMED * plan.makespan_s * max(1, len(ahead.websites[i]) / 8):
                    axes.text(start + width / 2, j, ahead.websites[i], ha="center", va="center", fontsize=7)
        axes.axvline(plan.bound_s, color="black", linestyle="--", linewidth=1)
        axes.set_yticks(range(task.clients), [ahead.clients[j] for j in column.tolist()])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        title = f"{plan.planner}: {plan.makespan_s:,.1f} s, {plan.ratio:.4f} times the bound (dashed)"
        axes.set(xlabel="seconds", title=title)
        canvas.savefig(path, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(canvas)
