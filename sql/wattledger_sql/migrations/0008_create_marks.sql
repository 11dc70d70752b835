-- The latest mark of every source partition in every allocations partition: how far the facts are settled.
-- One row a pair of partitions; the version is the tick itself, so an older mark that is sent again changes nothing.
-- statement
CREATE TABLE IF NOT EXISTS marks {on_cluster}
(
    allocations_partition Int32 COMMENT 'Partition of the allocations topic that the mark was read from',
    origin_partition Int32 COMMENT 'Partition of job-events whose revisions are all written up to the mark',
    origin_offset Int64 COMMENT 'Offset of the tick in job-events',
    marked_at DateTime64(6, 'UTC') COMMENT 'The tick: every revision from records above it is written, UTC',
    stale_sources Array(String) COMMENT 'Sources that had not reported up to the tick',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
ENGINE = {replicated}ReplacingMergeTree(marked_at)
ORDER BY (allocations_partition, origin_partition)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Latest mark of every job-events partition in every allocations partition'
-- statement
CREATE VIEW IF NOT EXISTS v_marks {on_cluster}
(
    allocations_partition Int32 COMMENT 'Partition of the allocations topic that the mark was read from',
    origin_partition Int32 COMMENT 'Partition of job-events whose revisions are all written up to the mark',
    origin_offset Int64 COMMENT 'Offset of the tick in job-events',
    marked_at DateTime64(6, 'UTC') COMMENT 'The tick: every revision from records above it is written, UTC',
    stale_sources Array(String) COMMENT 'Sources that had not reported up to the tick',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    allocations_partition, origin_partition, origin_offset, marked_at, stale_sources, source_partition, source_offset,
    inserted_at
FROM marks FINAL
COMMENT 'Latest mark of every job-events partition in every allocations partition. Each pair once (FINAL)'
