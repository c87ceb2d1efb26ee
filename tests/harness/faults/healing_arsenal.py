"""What arsenals whose faults have to be undone have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from tests.harness.cut_sorts import DrawnCut, draw_cuts
from tests.harness.faults.fault import Fault
from tests.harness.faults.healing import Healing
from tests.harness.schedule import Strike

Makers = dict[tuple[str, str], Callable[[], Fault]]
"""What makes a fault, by kind and target of its strike."""


@dataclass
class HealingArsenal(ABC):
    """Makes faults by kind and target, and undoes at the end what is left of them.

    Attributes:
        say: told what was healed at the end.
        torn_down: whether the whole stack ends with the run, so that its servers can stay down.
        healing: what is to be undone.
    """

    torn_down: ClassVar[bool]
    say: Callable[[str], None] = field(kw_only=True)
    healing: Healing = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing to heal."""
        self.healing = Healing(self.say)

    def fault(self, strike: Strike) -> Fault:
        """One of the sort that a strike names, for one try. Raises ValueError when there is none here."""
        make = self._makers().get((strike.kind, strike.target))
        if make is None:
            raise ValueError(f"there is no fault {strike.kind} of {strike.target} here")
        return make()

    def close(self) -> None:
        """Give up what lasts and undo it. Safe to repeat."""
        self.healing.close(torn_down=self.torn_down)

    @abstractmethod
    def _makers(self) -> Makers:
        """Every sort there is here."""


@dataclass
class DrawingArsenal(HealingArsenal):
    """One that has cuts too, each drawn from the seed.

    Attributes:
        seed: draws cuts, and what else a plan leaves open.
    """

    seed: int = field(kw_only=True)
    _drawn_cuts: Iterator[DrawnCut] = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing to heal, and with what the seed draws."""
        super().__post_init__()
        self._drawn_cuts = draw_cuts(self.seed)
