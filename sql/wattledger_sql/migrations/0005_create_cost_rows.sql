-- One usage line priced for one component: what it costs, or what the tenant is billed. Append-only.
-- Sorted by tenant first (row policies, statements), then time (every aggregate reads a range of hours), then the row's
-- id and content, so that replays collapse and contradictions are kept. The primary key stops before the id.
-- Partitioned by month of the row's own time, never of the insert, so that a row sent again lands where it was.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS cost_rows {on_cluster}
(
    row_id String COMMENT 'Identity: a hash of the line and component, or of what caused a correction',
    line_id String COMMENT 'The usage line that is priced',
    component LowCardinality(String) COMMENT 'compute, energy, pool:<name> (costs), or billed (what the rate card bills)',
    group_start_at DateTime64(6, 'UTC') COMMENT 'Start of the batch or quarter-hour, UTC',
    group_end_at DateTime64(6, 'UTC') COMMENT 'End of the batch or quarter-hour, UTC, exclusive',
    node LowCardinality(String) COMMENT 'Node that holds the device',
    device String COMMENT 'Device: the UUID of the physical GPU',
    gpu_instance LowCardinality(String) COMMENT 'MIG instance; empty: the whole device',
    site LowCardinality(String) COMMENT 'Site of the node, as the prices name it',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU, as the prices name it',
    state LowCardinality(String) COMMENT 'State of the line: held, free, reserved_unused, stranded, unavailable, idle, unattributed',
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    project String COMMENT 'Project of the job; may be empty',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    cluster LowCardinality(String) COMMENT 'Cluster of the job; empty without a job',
    job String COMMENT 'Job within its cluster; empty without a job',
    attempt Int32 COMMENT 'Attempt of the job, from 0; counts requeues',
    allocation_id String COMMENT 'Allocation that the line is about; empty without one',
    plan LowCardinality(String) COMMENT 'reserved, on_demand, spot, internal or trial; empty without a holder',
    sku LowCardinality(String) COMMENT 'What the tenant is billed by; may be empty',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the hull of the time it is about, UTC',
    end_at DateTime64(6, 'UTC') COMMENT 'End of the hull of the time it is about, UTC, exclusive',
    quantity Nullable(Int64) COMMENT 'What is priced, in the unit; NULL: unknown; negated in a reversal',
    unit LowCardinality(String) COMMENT 'Unit of quantity: us (device-time, µs) or uj (energy, µJ)',
    price_id String COMMENT 'Price that applies; empty: none',
    price_revision_id String COMMENT 'Revision of the price; empty: none',
    rate Nullable(Decimal(38, 12)) COMMENT 'Rate in the currency per device-hour (unit us) or per kWh (unit uj); NULL: unpriced',
    pue Nullable(Decimal(38, 12)) COMMENT 'Power usage effectiveness that the energy is multiplied by; NULL: none applies',
    marginal Bool COMMENT 'Whether the cost is paid in cash per use: it counts in the marginal floor',
    cost Nullable(Decimal(38, 12)) COMMENT 'Amount in the currency, rounded once to 12 decimals, half-even; NULL: see status and reason; negated in a reversal',
    currency LowCardinality(String) COMMENT 'Currency of rate and cost; empty when unpriced',
    status LowCardinality(String) COMMENT 'priced, unpriced (no price, or more than one) or unmeasured (quantity unknown)',
    reason String COMMENT 'Why there is no cost; empty when priced',
    sign Int8 COMMENT '1, or -1: the sum of sign is what stands',
    entry LowCardinality(String) COMMENT 'original, reversal or correction',
    of_row_id String COMMENT 'The row that this one takes back; empty: none',
    cause_id String COMMENT 'The late revision, of an allocation or of a price, that caused the row; empty in an original',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        row_id, line_id, component, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state,
        tenant_id, project, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at, quantity,
        unit, price_id, price_revision_id, rate, pue, marginal, cost, currency, status, reason, sign, entry,
        of_row_id, cause_id
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(start_at)
PRIMARY KEY (tenant_id, start_at, node, device)
ORDER BY (tenant_id, start_at, node, device, component, row_id, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'One usage line priced for one component: what it costs, or what the tenant is billed. Append-only'
-- statement
CREATE VIEW IF NOT EXISTS v_cost_rows {on_cluster}
(
    row_id String COMMENT 'Identity: a hash of the line and component, or of what caused a correction',
    line_id String COMMENT 'The usage line that is priced',
    component LowCardinality(String) COMMENT 'compute, energy, pool:<name> (costs), or billed (what the rate card bills)',
    group_start_at DateTime64(6, 'UTC') COMMENT 'Start of the batch or quarter-hour, UTC',
    group_end_at DateTime64(6, 'UTC') COMMENT 'End of the batch or quarter-hour, UTC, exclusive',
    node LowCardinality(String) COMMENT 'Node that holds the device',
    device String COMMENT 'Device: the UUID of the physical GPU',
    gpu_instance LowCardinality(String) COMMENT 'MIG instance; empty: the whole device',
    site LowCardinality(String) COMMENT 'Site of the node, as the prices name it',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU, as the prices name it',
    state LowCardinality(String) COMMENT 'State of the line: held, free, reserved_unused, stranded, unavailable, idle, unattributed',
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    project String COMMENT 'Project of the job; may be empty',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    cluster LowCardinality(String) COMMENT 'Cluster of the job; empty without a job',
    job String COMMENT 'Job within its cluster; empty without a job',
    attempt Int32 COMMENT 'Attempt of the job, from 0; counts requeues',
    allocation_id String COMMENT 'Allocation that the line is about; empty without one',
    plan LowCardinality(String) COMMENT 'reserved, on_demand, spot, internal or trial; empty without a holder',
    sku LowCardinality(String) COMMENT 'What the tenant is billed by; may be empty',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the hull of the time it is about, UTC',
    end_at DateTime64(6, 'UTC') COMMENT 'End of the hull of the time it is about, UTC, exclusive',
    quantity Nullable(Int64) COMMENT 'What is priced, in the unit; NULL: unknown; negated in a reversal',
    unit LowCardinality(String) COMMENT 'Unit of quantity: us (device-time, µs) or uj (energy, µJ)',
    price_id String COMMENT 'Price that applies; empty: none',
    price_revision_id String COMMENT 'Revision of the price; empty: none',
    rate Nullable(Decimal(38, 12)) COMMENT 'Rate in the currency per device-hour (unit us) or per kWh (unit uj); NULL: unpriced',
    pue Nullable(Decimal(38, 12)) COMMENT 'Power usage effectiveness that the energy is multiplied by; NULL: none applies',
    marginal Bool COMMENT 'Whether the cost is paid in cash per use: it counts in the marginal floor',
    cost Nullable(Decimal(38, 12)) COMMENT 'Amount in the currency, rounded once to 12 decimals, half-even; NULL: see status and reason; negated in a reversal',
    currency LowCardinality(String) COMMENT 'Currency of rate and cost; empty when unpriced',
    status LowCardinality(String) COMMENT 'priced, unpriced (no price, or more than one) or unmeasured (quantity unknown)',
    reason String COMMENT 'Why there is no cost; empty when priced',
    sign Int8 COMMENT '1, or -1: the sum of sign is what stands',
    entry LowCardinality(String) COMMENT 'original, reversal or correction',
    of_row_id String COMMENT 'The row that this one takes back; empty: none',
    cause_id String COMMENT 'The late revision, of an allocation or of a price, that caused the row; empty in an original',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    row_id, line_id, component, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state,
    tenant_id, project, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at, quantity, unit,
    price_id, price_revision_id, rate, pue, marginal, cost, currency, status, reason, sign, entry, of_row_id,
    cause_id, content_hash, source_partition, source_offset, inserted_at
FROM cost_rows FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'One usage line priced for one component: what it costs, or what the tenant is billed. Append-only. Each row once (FINAL)'
