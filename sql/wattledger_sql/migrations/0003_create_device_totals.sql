-- What the lines of one device and batch or quarter-hour must sum to, computed apart from them.
-- No tenant: a total is about a device, whoever held it. Sorted as the laws compare it with usage_lines.
-- Partitioned by month of the row's own time, never of the insert, so that a row sent again lands where it was.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS device_totals {on_cluster}
(
    total_id String COMMENT 'Identity: a hash of what the total is about',
    kind LowCardinality(String) COMMENT 'time: of a quarter-hour; energy: of a batch',
    group_start_at DateTime64(6, 'UTC') COMMENT 'Start of the batch or quarter-hour, UTC',
    group_end_at DateTime64(6, 'UTC') COMMENT 'End of the batch or quarter-hour, UTC, exclusive',
    node LowCardinality(String) COMMENT 'Node that holds the device',
    device String COMMENT 'Device: the UUID of the physical GPU',
    in_service_us Int64 COMMENT 'Time in service in the quarter-hour, µs; 0 for energy, negated in a reversal',
    energy_uj Int64 COMMENT 'Energy of the batch, µJ; 0 for time, negated in a reversal',
    measured_us Int64 COMMENT 'Time of the batch whose energy is known, µs; negated in a reversal',
    unknown_us Int64 COMMENT 'Time of the batch whose energy is unknown, µs; negated in a reversal',
    batch_partition Int32 COMMENT 'Partition of the gpu-samples record that it is about; -1: none',
    batch_offset Int64 COMMENT 'Offset of the gpu-samples record that it is about; -1: none',
    sign Int8 COMMENT '1, or -1 in a reversal: the sum of sign is what stands',
    entry LowCardinality(String) COMMENT 'original, reversal or correction',
    of_total_id String COMMENT 'The total that a reversal takes back; empty otherwise',
    cause_id String COMMENT 'The late revision that caused a reversal or a correction; empty in an original',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        total_id, kind, group_start_at, group_end_at, node, device, in_service_us, energy_uj, measured_us, unknown_us,
        batch_partition, batch_offset, sign, entry, of_total_id, cause_id
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(group_start_at)
PRIMARY KEY (node, device, kind, group_start_at)
ORDER BY (node, device, kind, group_start_at, total_id, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'What the lines of one device and batch or quarter-hour must sum to, computed apart from them'
-- statement
CREATE VIEW IF NOT EXISTS v_device_totals {on_cluster}
(
    total_id String COMMENT 'Identity: a hash of what the total is about',
    kind LowCardinality(String) COMMENT 'time: of a quarter-hour; energy: of a batch',
    group_start_at DateTime64(6, 'UTC') COMMENT 'Start of the batch or quarter-hour, UTC',
    group_end_at DateTime64(6, 'UTC') COMMENT 'End of the batch or quarter-hour, UTC, exclusive',
    node LowCardinality(String) COMMENT 'Node that holds the device',
    device String COMMENT 'Device: the UUID of the physical GPU',
    in_service_us Int64 COMMENT 'Time in service in the quarter-hour, µs; 0 for energy, negated in a reversal',
    energy_uj Int64 COMMENT 'Energy of the batch, µJ; 0 for time, negated in a reversal',
    measured_us Int64 COMMENT 'Time of the batch whose energy is known, µs; negated in a reversal',
    unknown_us Int64 COMMENT 'Time of the batch whose energy is unknown, µs; negated in a reversal',
    batch_partition Int32 COMMENT 'Partition of the gpu-samples record that it is about; -1: none',
    batch_offset Int64 COMMENT 'Offset of the gpu-samples record that it is about; -1: none',
    sign Int8 COMMENT '1, or -1 in a reversal: the sum of sign is what stands',
    entry LowCardinality(String) COMMENT 'original, reversal or correction',
    of_total_id String COMMENT 'The total that a reversal takes back; empty otherwise',
    cause_id String COMMENT 'The late revision that caused a reversal or a correction; empty in an original',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    total_id, kind, group_start_at, group_end_at, node, device, in_service_us, energy_uj, measured_us, unknown_us,
    batch_partition, batch_offset, sign, entry, of_total_id, cause_id, content_hash, source_partition, source_offset,
    inserted_at
FROM device_totals FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'What the lines of one device and batch or quarter-hour must sum to, computed apart from them. Each row once (FINAL)'
