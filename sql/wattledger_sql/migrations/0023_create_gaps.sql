-- Records that agents had to drop, by their own count: what is known to be missing.
-- Sorted by node and agent, whose sequence numbers then lie in order. Not partitioned: the time of a gap may be unknown.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS gaps {on_cluster}
(
    node LowCardinality(String) COMMENT 'Node of the agent',
    agent String COMMENT 'Agent that dropped them',
    topic LowCardinality(String) COMMENT 'Topic that they were for',
    from_seq Int64 COMMENT 'Sequence number of the first record dropped',
    to_seq Int64 COMMENT 'Sequence number after the last one dropped',
    record_count Int64 COMMENT 'Number of records dropped',
    from_at Nullable(DateTime64(6, 'UTC')) COMMENT 'Start of the time that they were about, UTC; NULL: unknown',
    to_at Nullable(DateTime64(6, 'UTC')) COMMENT 'End of the time that they were about, UTC; NULL: unknown',
    reason String COMMENT 'Why they were dropped',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        node, agent, topic, from_seq, to_seq, record_count, from_at, to_at, reason
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PRIMARY KEY (node, agent, topic, from_seq)
ORDER BY (node, agent, topic, from_seq, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Records that agents had to drop, by their own count: what is known to be missing'
-- statement
CREATE VIEW IF NOT EXISTS v_gaps {on_cluster}
(
    node LowCardinality(String) COMMENT 'Node of the agent',
    agent String COMMENT 'Agent that dropped them',
    topic LowCardinality(String) COMMENT 'Topic that they were for',
    from_seq Int64 COMMENT 'Sequence number of the first record dropped',
    to_seq Int64 COMMENT 'Sequence number after the last one dropped',
    record_count Int64 COMMENT 'Number of records dropped',
    from_at Nullable(DateTime64(6, 'UTC')) COMMENT 'Start of the time that they were about, UTC; NULL: unknown',
    to_at Nullable(DateTime64(6, 'UTC')) COMMENT 'End of the time that they were about, UTC; NULL: unknown',
    reason String COMMENT 'Why they were dropped',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    node, agent, topic, from_seq, to_seq, record_count, from_at, to_at, reason, content_hash, source_partition,
    source_offset, inserted_at
FROM gaps FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Records that agents had to drop, by their own count: what is known to be missing. Each row once (FINAL)'
