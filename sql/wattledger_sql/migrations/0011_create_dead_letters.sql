-- Records that could not be used, whole, with the reason.
-- Not partitioned by month: a record that could not be read has no event time. Sorted by where it came from.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS dead_letters {on_cluster}
(
    topic LowCardinality(String) COMMENT 'Topic that the record was read from',
    topic_partition Int32 COMMENT 'Partition that it was read from',
    topic_offset Int64 COMMENT 'Offset that it was read from',
    reason_code LowCardinality(String) COMMENT 'Reason code',
    detail String COMMENT 'What was wrong, in words',
    processor LowCardinality(String) COMMENT 'Processor that could not use it',
    record_key String COMMENT 'Key of the record, raw bytes',
    record_value String COMMENT 'Value of the record, raw bytes',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        topic, topic_partition, topic_offset, reason_code, detail, processor, record_key, record_value
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PRIMARY KEY (topic, topic_partition, topic_offset)
ORDER BY (topic, topic_partition, topic_offset, processor, reason_code, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Records that could not be used, whole, with the reason'
-- statement
CREATE VIEW IF NOT EXISTS v_dead_letters {on_cluster}
(
    topic LowCardinality(String) COMMENT 'Topic that the record was read from',
    topic_partition Int32 COMMENT 'Partition that it was read from',
    topic_offset Int64 COMMENT 'Offset that it was read from',
    reason_code LowCardinality(String) COMMENT 'Reason code',
    detail String COMMENT 'What was wrong, in words',
    processor LowCardinality(String) COMMENT 'Processor that could not use it',
    record_key String COMMENT 'Key of the record, raw bytes',
    record_value String COMMENT 'Value of the record, raw bytes',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    topic, topic_partition, topic_offset, reason_code, detail, processor, record_key, record_value, content_hash,
    source_partition, source_offset, inserted_at
FROM dead_letters FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Records that could not be used, whole, with the reason. Each row once (FINAL)'
