"""What a world is made of: sizes, and how much of each trouble there is. All troubles are off unless asked for."""

from dataclasses import dataclass, replace

S = 1_000_000
MINUTE = 60 * S
QUARTER = 900 * S
MIDNIGHT_US = 1_794_182_400 * S
LATENESS_US = 60 * S
"""L, as the workers have it by default."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Shares are of 1; counts are of the whole world; times in the unit of their name."""

    seed: int
    nodes: int = 3
    devices: int = 4
    minutes: int = 60
    period_s: int = 1
    ticks_per_record: int = 30
    tick_s: int = 60
    """Distance of the ticker's ticks in `job-events` and `price-book`."""
    start_us: int = MIDNIGHT_US
    job_minutes: int = 12
    """How long a job runs, on average."""

    late_jobs: float = 0.0
    """Share of jobs whose start or end is reported up to `late_by_min` after it happened."""
    late_by_min: int = 40
    shuffled_jobs: float = 0.0
    """Share whose end is reported before their start."""
    corrected_jobs: float = 0.0
    """Share whose end, or start and tenant, is first reported wrong."""
    duplicate_events: float = 0.0
    missing_stops: float = 0.0
    """Share without an end: a next attempt's start ends them. Then one job a node never ends at all."""
    zombies: float = 0.0
    """Share whose devices are released some time after the stop was requested."""
    suspends: float = 0.0
    overlaps: float = 0.0
    """Share during which another job claims the same devices, exclusively."""

    price_changes: int = 0
    """Price changes on the grid inside the world, published ahead."""
    late_prices: int = 0
    """Price changes for the past: the old price ended, a new one begun."""

    gaps: int = 0
    """How often each node's agent is away; counters bridge it, cards without one have unknown time."""
    gap_min: int = 4
    resets: float = 0.0
    """Share of the gaps after which the counters have begun anew, so that nothing bridges them."""
    missing_cells: float = 0.0
    """Share of power readings missing, on the cards without a counter."""

    duplicate_records: float = 0.0
    shuffled_records: float = 0.0
    """Share of sample records that arrive up to five minutes late, so after later ones."""
    late_records: float = 0.0
    late_records_by_min: int = 180
    poison: int = 0
    """How many unusable records of each kind."""

    @property
    def end_us(self) -> int:
        """End of the last sample and of every job that ends."""
        return self.start_us + self.minutes * MINUTE

    @property
    def last_tick_us(self) -> int:
        """The last tick: every quarter-hour that the world touches is settled, everything late has come."""
        late_min = 5 if self.shuffled_records or self.duplicate_records or self.poison else 0
        if self.late_records:
            late_min = max(late_min, self.late_records_by_min)
        troubles = (self.late_jobs, self.shuffled_jobs, self.corrected_jobs, self.zombies, self.suspends)
        if any(troubles) or self.late_prices:
            late_min = max(late_min, 2 * self.late_by_min)
        late_min += 20 if self.duplicate_events else 0
        settled_us = -(-self.end_us // QUARTER) * QUARTER + LATENESS_US
        tick_us = self.tick_s * S
        return -(-(max(settled_us, self.end_us + late_min * MINUTE) + 2 * MINUTE) // tick_us) * tick_us

    def with_every_trouble(self) -> "Plan":
        """The same world with some of every trouble."""
        return replace(
            self, late_jobs=0.25, shuffled_jobs=0.1, corrected_jobs=0.2, duplicate_events=0.2, missing_stops=0.1,
            zombies=0.1, suspends=0.1, overlaps=0.15, price_changes=2, late_prices=1, gaps=2, resets=0.5,
            missing_cells=0.01, duplicate_records=0.05, shuffled_records=0.1, late_records=0.02, poison=1,
        )  # fmt: skip
