"""What engines take of a machine's memory, and what they may. Measures nothing and unloads nothing."""

from collections.abc import Iterable, Mapping

MIB = 1 << 20


class EngineMemory:
    """Figures by engine: what the manifest says of its peak, or more where more was measured."""

    def __init__(self, limit_mib: int, expected_mib: Mapping[str, int]) -> None:
        # 0: no limit.
        self.limit_mib = limit_mib
        self._expected = dict(expected_mib)
        self._measured: dict[str, int] = {}

    def weigh(self, engine: str, resident_bytes: int | None) -> None:
        """Note what the engine takes now; that counts until it is measured again, loaded or not."""
        if resident_bytes is not None:
            self._measured[engine] = resident_bytes // MIB

    def takes_mib(self, engine: str) -> int:
        """What to count for the engine: one that is idle now will take its peak again."""
        return max(self._expected[engine], self._measured.get(engine, 0))

    def measured_mib(self, engine: str) -> int:
        """What it took when it was measured last."""
        return self._measured.get(engine, 0)

    def fits(self, engines: Iterable[str]) -> bool:
        """Whether these may be loaded together."""
        return self.limit_mib == 0 or sum(map(self.takes_mib, engines)) <= self.limit_mib
