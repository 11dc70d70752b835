-- Rules over the views that were raised or cleared.
-- Sorted by tenant first (row policies), then rule and scope, so that the last state of a rule is the end of a range.
-- Partitioned by month of the row's own time, never of the insert, so that a row sent again lands where it was.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS threshold_events {on_cluster}
(
    event_id String COMMENT 'Identity: a hash of rule, scope, time and transition',
    rule LowCardinality(String) COMMENT 'Name of the rule',
    scope String COMMENT 'What it was evaluated for: a tenant, a node, a budget',
    transition LowCardinality(String) COMMENT 'raised or cleared',
    observed_at DateTime64(6, 'UTC') COMMENT 'Event time of the observation, UTC',
    tenant_id LowCardinality(String) COMMENT 'Tenant concerned; empty: none',
    node LowCardinality(String) COMMENT 'Node concerned; empty: none',
    severity LowCardinality(String) COMMENT 'info, warning or critical',
    value Nullable(Decimal(38, 12)) COMMENT 'Value that was seen, in the unit, rounded to 12 decimals; NULL: unknown',
    threshold Nullable(Decimal(38, 12)) COMMENT 'Limit that it was judged by, in the unit, rounded to 12 decimals; NULL: none',
    unit LowCardinality(String) COMMENT 'Unit of value and limit',
    detail String COMMENT 'The event in words',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        event_id, rule, scope, transition, observed_at, tenant_id, node, severity, value, threshold, unit, detail
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(observed_at)
PRIMARY KEY (tenant_id, rule, scope, observed_at)
ORDER BY (tenant_id, rule, scope, observed_at, event_id, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Rules over the views that were raised or cleared'
-- statement
CREATE VIEW IF NOT EXISTS v_threshold_events {on_cluster}
(
    event_id String COMMENT 'Identity: a hash of rule, scope, time and transition',
    rule LowCardinality(String) COMMENT 'Name of the rule',
    scope String COMMENT 'What it was evaluated for: a tenant, a node, a budget',
    transition LowCardinality(String) COMMENT 'raised or cleared',
    observed_at DateTime64(6, 'UTC') COMMENT 'Event time of the observation, UTC',
    tenant_id LowCardinality(String) COMMENT 'Tenant concerned; empty: none',
    node LowCardinality(String) COMMENT 'Node concerned; empty: none',
    severity LowCardinality(String) COMMENT 'info, warning or critical',
    value Nullable(Decimal(38, 12)) COMMENT 'Value that was seen, in the unit, rounded to 12 decimals; NULL: unknown',
    threshold Nullable(Decimal(38, 12)) COMMENT 'Limit that it was judged by, in the unit, rounded to 12 decimals; NULL: none',
    unit LowCardinality(String) COMMENT 'Unit of value and limit',
    detail String COMMENT 'The event in words',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    event_id, rule, scope, transition, observed_at, tenant_id, node, severity, value, threshold, unit, detail,
    content_hash, source_partition, source_offset, inserted_at
FROM threshold_events FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Rules over the views that were raised or cleared. Each row once (FINAL)'
