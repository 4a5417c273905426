"""Figures 4 to 11 of the paper on update scheduling, one module each."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.figures.experiment import Experiment
from benchmarks.figures.figure_04 import FIGURE_4
from benchmarks.figures.figure_05 import FIGURE_5
from benchmarks.figures.figure_06 import FIGURE_6
from benchmarks.figures.figure_07 import FIGURE_7
from benchmarks.figures.figure_08 import FIGURE_8
from benchmarks.figures.figure_09 import FIGURE_9
from benchmarks.figures.figure_10 import FIGURE_10
from benchmarks.figures.figure_11 import FIGURE_11

FIGURES: Mapping[int, Experiment] = {
    figure.figure: figure
    for figure in (FIGURE_4, FIGURE_5, FIGURE_6, FIGURE_7, FIGURE_8, FIGURE_9, FIGURE_10, FIGURE_11)
}
