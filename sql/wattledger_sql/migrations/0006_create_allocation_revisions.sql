-- Revisions of allocations: each is the whole truth about one unbroken hold of a device or slice as known after one event.
-- Sorted by tenant first (row policies), then by allocation, so that a history is read in one piece.
-- Partitioned by month of the row's own time, never of the insert, so that a row sent again lands where it was.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS allocation_revisions {on_cluster}
(
    revision_id String COMMENT 'Identity of the revision',
    allocation_id String COMMENT 'The allocation that it is about',
    origin_partition Int32 COMMENT 'Partition of the job-events record that made the revision',
    origin_offset Int64 COMMENT 'Offset of the job-events record that made the revision',
    origin_seq Int32 COMMENT 'Number of the revision among those of one job-events record, from 0',
    known_at DateTime64(6, 'UTC') COMMENT 'The last tick above that record in its partition, UTC; 1970: none yet',
    cluster LowCardinality(String) COMMENT 'Cluster of the job',
    job String COMMENT 'Job within its cluster',
    attempt Int32 COMMENT 'Attempt of the job, from 0',
    segment Int32 COMMENT 'Number of the unbroken hold within the attempt, from 0',
    node LowCardinality(String) COMMENT 'Node that holds the device',
    device String COMMENT 'Device: the UUID of the physical GPU',
    gpu_instance LowCardinality(String) COMMENT 'MIG instance; empty: the whole device',
    share_num Int32 COMMENT 'Numerator of the part of the whole device that is held',
    share_den Int32 COMMENT 'Denominator of the part of the whole device that is held',
    tenant_id LowCardinality(String) COMMENT 'Tenant that holds it',
    project String COMMENT 'Project of the job; may be empty',
    user_name String COMMENT 'User who submitted the job; may be empty',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    plan LowCardinality(String) COMMENT 'reserved, on_demand, spot, internal or trial',
    sku LowCardinality(String) COMMENT 'What the tenant is billed by; may be empty',
    requested_profile LowCardinality(String) COMMENT 'Profile that was asked for, such as full or 3g.40gb',
    delivered_profile LowCardinality(String) COMMENT 'Profile that was given',
    exclusive Bool COMMENT 'Whether the job has the node to itself',
    cpus Nullable(Int32) COMMENT 'CPUs taken with it; NULL: unknown',
    memory_bytes Nullable(Int64) COMMENT 'Memory taken with it, bytes; NULL: unknown',
    storage_bytes Nullable(Int64) COMMENT 'Storage taken with it, bytes; NULL: unknown',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the hold, UTC',
    end_at Nullable(DateTime64(6, 'UTC')) COMMENT 'Release, UTC, exclusive; NULL: it runs',
    stop_requested_at Nullable(DateTime64(6, 'UTC')) COMMENT 'When the tenant asked to stop, UTC; from there to end_at the provider holds the device; NULL: never',
    outcome LowCardinality(String) COMMENT 'How the attempt ended; empty while it runs',
    marks Array(String) COMMENT 'Quality marks',
    void Bool COMMENT 'Whether the allocation turned out never to have been',
    announced Bool COMMENT 'Whether it only repeats what still runs',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        revision_id, allocation_id, origin_partition, origin_offset, origin_seq, known_at, cluster, job, attempt,
        segment, node, device, gpu_instance, share_num, share_den, tenant_id, project, user_name, model_tag, plan,
        sku, requested_profile, delivered_profile, exclusive, cpus, memory_bytes, storage_bytes, start_at, end_at,
        stop_requested_at, outcome, marks, void, announced
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(start_at)
PRIMARY KEY (tenant_id, allocation_id)
ORDER BY (tenant_id, allocation_id, origin_offset, origin_seq, revision_id, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Revisions of allocations: each is the whole truth about one unbroken hold of a device or slice as known after one event'
-- statement
CREATE VIEW IF NOT EXISTS v_allocation_revisions {on_cluster}
(
    revision_id String COMMENT 'Identity of the revision',
    allocation_id String COMMENT 'The allocation that it is about',
    origin_partition Int32 COMMENT 'Partition of the job-events record that made the revision',
    origin_offset Int64 COMMENT 'Offset of the job-events record that made the revision',
    origin_seq Int32 COMMENT 'Number of the revision among those of one job-events record, from 0',
    known_at DateTime64(6, 'UTC') COMMENT 'The last tick above that record in its partition, UTC; 1970: none yet',
    cluster LowCardinality(String) COMMENT 'Cluster of the job',
    job String COMMENT 'Job within its cluster',
    attempt Int32 COMMENT 'Attempt of the job, from 0',
    segment Int32 COMMENT 'Number of the unbroken hold within the attempt, from 0',
    node LowCardinality(String) COMMENT 'Node that holds the device',
    device String COMMENT 'Device: the UUID of the physical GPU',
    gpu_instance LowCardinality(String) COMMENT 'MIG instance; empty: the whole device',
    share_num Int32 COMMENT 'Numerator of the part of the whole device that is held',
    share_den Int32 COMMENT 'Denominator of the part of the whole device that is held',
    tenant_id LowCardinality(String) COMMENT 'Tenant that holds it',
    project String COMMENT 'Project of the job; may be empty',
    user_name String COMMENT 'User who submitted the job; may be empty',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    plan LowCardinality(String) COMMENT 'reserved, on_demand, spot, internal or trial',
    sku LowCardinality(String) COMMENT 'What the tenant is billed by; may be empty',
    requested_profile LowCardinality(String) COMMENT 'Profile that was asked for, such as full or 3g.40gb',
    delivered_profile LowCardinality(String) COMMENT 'Profile that was given',
    exclusive Bool COMMENT 'Whether the job has the node to itself',
    cpus Nullable(Int32) COMMENT 'CPUs taken with it; NULL: unknown',
    memory_bytes Nullable(Int64) COMMENT 'Memory taken with it, bytes; NULL: unknown',
    storage_bytes Nullable(Int64) COMMENT 'Storage taken with it, bytes; NULL: unknown',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the hold, UTC',
    end_at Nullable(DateTime64(6, 'UTC')) COMMENT 'Release, UTC, exclusive; NULL: it runs',
    stop_requested_at Nullable(DateTime64(6, 'UTC')) COMMENT 'When the tenant asked to stop, UTC; from there to end_at the provider holds the device; NULL: never',
    outcome LowCardinality(String) COMMENT 'How the attempt ended; empty while it runs',
    marks Array(String) COMMENT 'Quality marks',
    void Bool COMMENT 'Whether the allocation turned out never to have been',
    announced Bool COMMENT 'Whether it only repeats what still runs',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    revision_id, allocation_id, origin_partition, origin_offset, origin_seq, known_at, cluster, job, attempt, segment,
    node, device, gpu_instance, share_num, share_den, tenant_id, project, user_name, model_tag, plan, sku,
    requested_profile, delivered_profile, exclusive, cpus, memory_bytes, storage_bytes, start_at, end_at,
    stop_requested_at, outcome, marks, void, announced, content_hash, source_partition, source_offset, inserted_at
FROM allocation_revisions FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Revisions of allocations: each is the whole truth about one unbroken hold of a device or slice as known after one event. Each row once (FINAL)'
