-- One holder's or state's part of one device over one batch or quarter-hour. Append-only: a change is a reversal and a correction.
-- Sorted by tenant first (row policies and statements read one tenant), then kind and time (every aggregate reads a
-- range of hours of one kind), then the line's id and content, so that replays collapse and contradictions are kept.
-- The primary key stops before the id, which would only make the index in memory longer.
-- Partitioned by month of the row's own time, never of the insert, so that a row sent again lands where it was.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS usage_lines {on_cluster}
(
    line_id String COMMENT 'Identity: a hash of what the line is about',
    kind LowCardinality(String) COMMENT 'time: device-time from the allocation meter; energy: measured energy from the energy meter',
    group_start_at DateTime64(6, 'UTC') COMMENT 'Start of the batch or quarter-hour, UTC',
    group_end_at DateTime64(6, 'UTC') COMMENT 'End of the batch or quarter-hour, UTC, exclusive',
    node LowCardinality(String) COMMENT 'Node that holds the device',
    device String COMMENT 'Device: the UUID of the physical GPU',
    gpu_instance LowCardinality(String) COMMENT 'MIG instance; empty: the whole device',
    site LowCardinality(String) COMMENT 'Site of the node, as the prices name it',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU, as the prices name it',
    state LowCardinality(String) COMMENT 'time: held, free, reserved_unused, stranded, unavailable; energy: held, idle, unattributed',
    reason String COMMENT 'Why the state is what it is, or why the energy is unknown; may be empty',
    tenant_id LowCardinality(String) COMMENT 'Who holds it; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    project String COMMENT 'Project of the job; may be empty',
    user_name String COMMENT 'User who submitted the job; may be empty',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    cluster LowCardinality(String) COMMENT 'Cluster of the job; empty without a job',
    job String COMMENT 'Job within its cluster; empty without a job',
    attempt Int32 COMMENT 'Attempt of the job, from 0; counts requeues',
    allocation_id String COMMENT 'Allocation that the line is about; empty without one',
    plan LowCardinality(String) COMMENT 'reserved, on_demand, spot, internal or trial; empty without a holder',
    sku LowCardinality(String) COMMENT 'What the tenant is billed by; may be empty',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the hull of the time it is about, UTC',
    end_at DateTime64(6, 'UTC') COMMENT 'End of the hull of the time it is about, UTC, exclusive',
    span_us Int64 COMMENT 'Time that the line speaks for, µs; negated in a reversal',
    device_us Int64 COMMENT 'Device-time, µs; 0 in energy lines, negated in a reversal',
    energy_uj Nullable(Int64) COMMENT 'Measured energy, µJ; NULL: unknown, see reason; negated in a reversal',
    idle_energy_uj Int64 COMMENT 'Part of the energy while the device was not busy, µJ; negated in a reversal',
    busy_us Int64 COMMENT 'Time the device was busy, µs; negated in a reversal',
    method LowCardinality(String) COMMENT 'Where the quantity comes from: counter, power, none, allocation',
    marks String COMMENT 'Quality marks, sorted, joined by commas',
    sign Int8 COMMENT '1, or -1 in a reversal: the sum of sign is what stands',
    entry LowCardinality(String) COMMENT 'original, reversal or correction',
    of_line_id String COMMENT 'The line that a reversal takes back; empty otherwise',
    cause_id String COMMENT 'The late revision that caused a reversal or a correction; empty in an original',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        line_id, kind, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state, reason,
        tenant_id, project, user_name, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at,
        span_us, device_us, energy_uj, idle_energy_uj, busy_us, method, marks, sign, entry, of_line_id, cause_id
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(start_at)
PRIMARY KEY (tenant_id, kind, start_at, node, device)
ORDER BY (tenant_id, kind, start_at, node, device, line_id, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'One holder''s or state''s part of one device over one batch or quarter-hour. Append-only: a change is a reversal and a correction'
-- statement
CREATE VIEW IF NOT EXISTS v_usage_lines {on_cluster}
(
    line_id String COMMENT 'Identity: a hash of what the line is about',
    kind LowCardinality(String) COMMENT 'time: device-time from the allocation meter; energy: measured energy from the energy meter',
    group_start_at DateTime64(6, 'UTC') COMMENT 'Start of the batch or quarter-hour, UTC',
    group_end_at DateTime64(6, 'UTC') COMMENT 'End of the batch or quarter-hour, UTC, exclusive',
    node LowCardinality(String) COMMENT 'Node that holds the device',
    device String COMMENT 'Device: the UUID of the physical GPU',
    gpu_instance LowCardinality(String) COMMENT 'MIG instance; empty: the whole device',
    site LowCardinality(String) COMMENT 'Site of the node, as the prices name it',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU, as the prices name it',
    state LowCardinality(String) COMMENT 'time: held, free, reserved_unused, stranded, unavailable; energy: held, idle, unattributed',
    reason String COMMENT 'Why the state is what it is, or why the energy is unknown; may be empty',
    tenant_id LowCardinality(String) COMMENT 'Who holds it; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    project String COMMENT 'Project of the job; may be empty',
    user_name String COMMENT 'User who submitted the job; may be empty',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    cluster LowCardinality(String) COMMENT 'Cluster of the job; empty without a job',
    job String COMMENT 'Job within its cluster; empty without a job',
    attempt Int32 COMMENT 'Attempt of the job, from 0; counts requeues',
    allocation_id String COMMENT 'Allocation that the line is about; empty without one',
    plan LowCardinality(String) COMMENT 'reserved, on_demand, spot, internal or trial; empty without a holder',
    sku LowCardinality(String) COMMENT 'What the tenant is billed by; may be empty',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the hull of the time it is about, UTC',
    end_at DateTime64(6, 'UTC') COMMENT 'End of the hull of the time it is about, UTC, exclusive',
    span_us Int64 COMMENT 'Time that the line speaks for, µs; negated in a reversal',
    device_us Int64 COMMENT 'Device-time, µs; 0 in energy lines, negated in a reversal',
    energy_uj Nullable(Int64) COMMENT 'Measured energy, µJ; NULL: unknown, see reason; negated in a reversal',
    idle_energy_uj Int64 COMMENT 'Part of the energy while the device was not busy, µJ; negated in a reversal',
    busy_us Int64 COMMENT 'Time the device was busy, µs; negated in a reversal',
    method LowCardinality(String) COMMENT 'Where the quantity comes from: counter, power, none, allocation',
    marks String COMMENT 'Quality marks, sorted, joined by commas',
    sign Int8 COMMENT '1, or -1 in a reversal: the sum of sign is what stands',
    entry LowCardinality(String) COMMENT 'original, reversal or correction',
    of_line_id String COMMENT 'The line that a reversal takes back; empty otherwise',
    cause_id String COMMENT 'The late revision that caused a reversal or a correction; empty in an original',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    line_id, kind, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state, reason,
    tenant_id, project, user_name, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at,
    span_us, device_us, energy_uj, idle_energy_uj, busy_us, method, marks, sign, entry, of_line_id, cause_id,
    content_hash, source_partition, source_offset, inserted_at
FROM usage_lines FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'One holder''s or state''s part of one device over one batch or quarter-hour. Append-only: a change is a reversal and a correction. Each row once (FINAL)'
