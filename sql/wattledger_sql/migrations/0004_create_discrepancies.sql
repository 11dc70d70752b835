-- Contradictions in the data, each resolved by a stated rule: overlap, hold on a failed node, usage without a holder, counter reset and so on.
-- Sorted by where to look: node and device, then time. tenant_id names who is concerned and may list several.
-- Partitioned by month of the row's own time, never of the insert, so that a row sent again lands where it was.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS discrepancies {on_cluster}
(
    discrepancy_id String COMMENT 'Identity: a hash of kind, place, time and allocations',
    kind LowCardinality(String) COMMENT 'What contradicts what',
    node LowCardinality(String) COMMENT 'Node concerned',
    device String COMMENT 'Device concerned; may be empty',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the contradiction, UTC',
    end_at Nullable(DateTime64(6, 'UTC')) COMMENT 'End of the contradiction, UTC, exclusive; NULL: it has not ended',
    tenant_id String COMMENT 'Tenants concerned, joined by commas; may be empty',
    allocation_ids String COMMENT 'Allocations concerned, joined by commas; may be empty',
    detail String COMMENT 'What was found and which rule resolved it',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        discrepancy_id, kind, node, device, start_at, end_at, tenant_id, allocation_ids, detail
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(start_at)
PRIMARY KEY (node, device, start_at)
ORDER BY (node, device, start_at, discrepancy_id, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Contradictions in the data, each resolved by a stated rule: overlap, hold on a failed node, usage without a holder, counter reset and so on'
-- statement
CREATE VIEW IF NOT EXISTS v_discrepancies {on_cluster}
(
    discrepancy_id String COMMENT 'Identity: a hash of kind, place, time and allocations',
    kind LowCardinality(String) COMMENT 'What contradicts what',
    node LowCardinality(String) COMMENT 'Node concerned',
    device String COMMENT 'Device concerned; may be empty',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the contradiction, UTC',
    end_at Nullable(DateTime64(6, 'UTC')) COMMENT 'End of the contradiction, UTC, exclusive; NULL: it has not ended',
    tenant_id String COMMENT 'Tenants concerned, joined by commas; may be empty',
    allocation_ids String COMMENT 'Allocations concerned, joined by commas; may be empty',
    detail String COMMENT 'What was found and which rule resolved it',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    discrepancy_id, kind, node, device, start_at, end_at, tenant_id, allocation_ids, detail, content_hash,
    source_partition, source_offset, inserted_at
FROM discrepancies FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Contradictions in the data, each resolved by a stated rule: overlap, hold on a failed node, usage without a holder, counter reset and so on. Each row once (FINAL)'
