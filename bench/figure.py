"""One figure of scripts/bench: the measurement, its reference and its target."""
import dataclasses
import shutil
import statistics
from typing import Callable, Optional


@dataclasses.dataclass
class Target:
    """`word` is "at least" or "at most". `of` names the bounded quantity: the ratio of Weft to its reference ("ratio"), Weft's
    value ("value"), or Weft's value minus the reference ("more")."""
    word: str
    bound: float
    of: str = "ratio"

    def verdict(self, unit, weft, reference):
        asked = {"ratio": lambda: [w / r for w, r in zip(weft, reference)], "value": lambda: weft,
                 "more": lambda: [w - r for w, r in zip(weft, reference)]}[self.of]()
        value = statistics.median(asked)
        met = value >= self.bound if self.word == "at least" else value <= self.bound
        said = {"ratio": f"{self.word} {self.bound}", "value": f"{self.word} {self.bound} {unit}",
                "more": f"{value:.3g} {unit} more, {self.word} {self.bound}"}[self.of]
        return f"{said}: {'met' if met else 'MISSED'}"


@dataclasses.dataclass
class Figure:
    name: str
    unit: str
    weft: Callable[[], float]
    reference: Callable[[], float]
    reference_name: str
    target: Optional[Target] = None
    needs: dict = dataclasses.field(default_factory=dict)  # program -> Debian package that contains it
    root: bool = False
    sweep: bool = False
    seen: Optional[dict] = None  # name -> further values of Weft's runs, appended by weft()

    def missing(self):
        """Packages of the programs that are not installed."""
        return sorted({package for program, package in self.needs.items() if not shutil.which(program)})


def summary(samples):
    return f"{statistics.median(samples):,.4g} ({min(samples):,.4g} .. {max(samples):,.4g})"


def measure(figure, pairs, quiet):
    """Runs the pairs and prints the line; returns the JSON object."""
    for samples in (figure.seen or {}).values():
        samples.clear()
    weft, reference = [], []
    for _ in range(pairs):
        quiet()
        weft.append(figure.weft())
        reference.append(figure.reference())
    # Ratio of each pair: a shared machine changes its speed between pairs, but seldom within one.
    ratio = statistics.median(w / r for w, r in zip(weft, reference))
    verdict = figure.target.verdict(figure.unit, weft, reference) if figure.target else ""
    seen = "".join(f"  {name} {summary(samples)}" for name, samples in (figure.seen or {}).items() if samples)
    print(f"{figure.name:26} {figure.unit:8} weft {summary(weft):34} {figure.reference_name}: {summary(reference):34} "
          f"ratio {ratio:.2f}  {verdict}{seen}", flush=True)
    return {"name": figure.name, "unit": figure.unit, "weft": statistics.median(weft),
            "reference": statistics.median(reference), "reference_name": figure.reference_name, "ratio": ratio,
            "runs": {"weft": weft, "reference": reference, **(figure.seen or {})},
            "target": dataclasses.asdict(figure.target) if figure.target else None}
