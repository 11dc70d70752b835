-- Allocations and node facts as known now: of each the last revision in the order of its source, unless it says that the
-- thing never was. All revisions of one allocation or fact come from one job-events partition.
-- statement
CREATE VIEW IF NOT EXISTS v_allocations {on_cluster}
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
    marks Array(String) COMMENT 'Quality marks'
)
AS SELECT
    revision_id, allocation_id, origin_partition, origin_offset, origin_seq, known_at, cluster, job, attempt, segment,
    node, device, gpu_instance, share_num, share_den, tenant_id, project, user_name, model_tag, plan, sku,
    requested_profile, delivered_profile, exclusive, cpus, memory_bytes, storage_bytes, start_at, end_at,
    stop_requested_at, outcome, marks
FROM
(
    SELECT *
    FROM v_allocation_revisions
    ORDER BY origin_partition, origin_offset DESC, origin_seq DESC
    LIMIT 1 BY allocation_id
)
WHERE NOT void
COMMENT 'Allocations as known now: the last revision of each that is not void'
-- statement
CREATE VIEW IF NOT EXISTS v_node_facts {on_cluster}
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
    marks Array(String) COMMENT 'Quality marks'
)
AS SELECT
    revision_id, fact_id, origin_partition, origin_offset, origin_seq, known_at, node, cluster, kind, start_at,
    end_at, site, devices, cpus, memory_bytes, state, reason, reservation_id, tenant_id, reserved_devices, marks
FROM
(
    SELECT *
    FROM v_node_revisions
    ORDER BY origin_partition, origin_offset DESC, origin_seq DESC
    LIMIT 1 BY fact_id
)
WHERE NOT void
COMMENT 'Facts about nodes as known now: the last revision of each that is not void'
