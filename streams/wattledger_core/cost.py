"""Cost rows: one line priced for one component. Immutable, like the lines they come from."""

from decimal import Decimal
from typing import NamedTuple

from wattledger_core.line import ORIGINAL

PRICED = "priced"
UNPRICED = "unpriced"
UNMEASURED = "unmeasured"


class CostRow(NamedTuple):
    """`cost` is rounded once, here, to 12 decimals half-even; None with the reason when unpriced or unmeasured.

    component: `compute`, `energy`, `pool:<name>` (costs) or `billed` (what the tenant is billed by the rate card).
    `quantity` is device_us (`unit` us), or energy_uj (`unit` uj), None when unknown. In a reversal `sign` is -1 and
    quantity and cost are negated, so Σ cost and Σ sign over the folded topic are what stands.
    """

    row_id: str
    line_id: str
    component: str
    group_start_us: int
    group_end_us: int
    node: str
    device: str
    gpu_instance: str
    site: str
    gpu_model: str
    state: str
    tenant: str
    project: str
    model_tag: str
    cluster: str
    job: str
    attempt: int
    allocation_id: str
    plan: str
    sku: str
    start_us: int
    end_us: int
    quantity: int | None
    unit: str
    price_id: str
    price_revision_id: str
    rate: Decimal | None
    pue: Decimal | None
    marginal: bool
    cost: Decimal | None
    currency: str
    status: str
    reason: str
    sign: int = 1
    entry: str = ORIGINAL
    of_row_id: str = ""
    cause_id: str = ""
