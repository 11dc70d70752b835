-- Revisions of facts about nodes: inventory, service, state, reservation.
-- No tenant first: a fact is about a node, and only reservations name a holder. Sorted by node and kind, then by fact.
-- Partitioned by month of the row's own time, never of the insert, so that a row sent again lands where it was.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS node_revisions {on_cluster}
(
    revision_id String COMMENT 'Identity of the revision',
    fact_id String COMMENT 'The fact that it is about',
    origin_partition Int32 COMMENT 'Partition of the job-events record that made the revision',
    origin_offset Int64 COMMENT 'Offset of the job-events record that made the revision',
    origin_seq Int32 COMMENT 'Number of the revision among those of one job-events record, from 0',
    known_at DateTime64(6, 'UTC') COMMENT 'The last tick above that record in its partition, UTC; 1970: none yet',
    node LowCardinality(String) COMMENT 'Node that the fact is about',
    cluster LowCardinality(String) COMMENT 'Cluster of the node; may be empty',
    kind LowCardinality(String) COMMENT 'inventory, service, state or reservation',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the fact, UTC',
    end_at Nullable(DateTime64(6, 'UTC')) COMMENT 'End of the fact, UTC, exclusive; NULL: it holds',
    site LowCardinality(String) COMMENT 'Site of the node (inventory); empty otherwise',
    devices Array(Tuple(device String, device_index Int32, gpu_model String, slices Int32, sharing String, idle_floor_mw Nullable(Int64))) COMMENT 'Installed devices (inventory): UUID, index, model, MIG slices, way of sharing, idle floor in mW',
    cpus Nullable(Int32) COMMENT 'CPUs of the node (inventory); NULL: unknown',
    memory_bytes Nullable(Int64) COMMENT 'Memory of the node (inventory), bytes; NULL: unknown',
    state LowCardinality(String) COMMENT 'active, draining, maintenance, failed, spare or burn_in (state); empty otherwise',
    reason String COMMENT 'Why it is in that state; may be empty',
    reservation_id String COMMENT 'Reservation (reservation); empty otherwise',
    tenant_id LowCardinality(String) COMMENT 'Holder of the reservation; empty otherwise',
    reserved_devices Array(String) COMMENT 'Devices reserved; empty: every device of the node',
    marks Array(String) COMMENT 'Quality marks',
    void Bool COMMENT 'Whether the fact turned out never to have been',
    announced Bool COMMENT 'Whether it only repeats what still holds',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        revision_id, fact_id, origin_partition, origin_offset, origin_seq, known_at, node, cluster, kind, start_at,
        end_at, site, devices, cpus, memory_bytes, state, reason, reservation_id, tenant_id, reserved_devices, marks,
        void, announced
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(start_at)
PRIMARY KEY (node, kind, fact_id)
ORDER BY (node, kind, fact_id, origin_offset, origin_seq, revision_id, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Revisions of facts about nodes: inventory, service, state, reservation'
-- statement
CREATE VIEW IF NOT EXISTS v_node_revisions {on_cluster}
(
    revision_id String COMMENT 'Identity of the revision',
    fact_id String COMMENT 'The fact that it is about',
    origin_partition Int32 COMMENT 'Partition of the job-events record that made the revision',
    origin_offset Int64 COMMENT 'Offset of the job-events record that made the revision',
    origin_seq Int32 COMMENT 'Number of the revision among those of one job-events record, from 0',
    known_at DateTime64(6, 'UTC') COMMENT 'The last tick above that record in its partition, UTC; 1970: none yet',
    node LowCardinality(String) COMMENT 'Node that the fact is about',
    cluster LowCardinality(String) COMMENT 'Cluster of the node; may be empty',
    kind LowCardinality(String) COMMENT 'inventory, service, state or reservation',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the fact, UTC',
    end_at Nullable(DateTime64(6, 'UTC')) COMMENT 'End of the fact, UTC, exclusive; NULL: it holds',
    site LowCardinality(String) COMMENT 'Site of the node (inventory); empty otherwise',
    devices Array(Tuple(device String, device_index Int32, gpu_model String, slices Int32, sharing String, idle_floor_mw Nullable(Int64))) COMMENT 'Installed devices (inventory): UUID, index, model, MIG slices, way of sharing, idle floor in mW',
    cpus Nullable(Int32) COMMENT 'CPUs of the node (inventory); NULL: unknown',
    memory_bytes Nullable(Int64) COMMENT 'Memory of the node (inventory), bytes; NULL: unknown',
    state LowCardinality(String) COMMENT 'active, draining, maintenance, failed, spare or burn_in (state); empty otherwise',
    reason String COMMENT 'Why it is in that state; may be empty',
    reservation_id String COMMENT 'Reservation (reservation); empty otherwise',
    tenant_id LowCardinality(String) COMMENT 'Holder of the reservation; empty otherwise',
    reserved_devices Array(String) COMMENT 'Devices reserved; empty: every device of the node',
    marks Array(String) COMMENT 'Quality marks',
    void Bool COMMENT 'Whether the fact turned out never to have been',
    announced Bool COMMENT 'Whether it only repeats what still holds',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    revision_id, fact_id, origin_partition, origin_offset, origin_seq, known_at, node, cluster, kind, start_at,
    end_at, site, devices, cpus, memory_bytes, state, reason, reservation_id, tenant_id, reserved_devices, marks,
    void, announced, content_hash, source_partition, source_offset, inserted_at
FROM node_revisions FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Revisions of facts about nodes: inventory, service, state, reservation. Each row once (FINAL)'
