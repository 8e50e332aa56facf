import re
from itertools import pairwise

from gossamer.watch.quality import Answer, Part
from gossamer.watch.quality_page import _columns

_LABEL = re.compile(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">([^<]+)</text>')


def test_no_label_runs_into_another() -> None:
    rows = [(f"{2**power}+", 100 - power) for power in range(14)]
    part = Part("How many", "columns", "", "", "")
    found = _LABEL.findall(_columns(Answer(part, ["links", "targets"], rows)))
    assert [name for _, name in found][:2] == ["1+", "4+"]
    ends = [(float(x) - 3.5 * len(name), float(x) + 3.5 * len(name)) for x, name in found]
    assert all(end < begin for (_, end), (begin, _) in pairwise(ends))
