-- Which capacity state installed devices were in, and whose, by hour: a refreshable view over the folded facts, so that a replay can't inflate it.
-- Each refresh recomputes whole hours: those with rows inserted since the last one, and the 48 that have waited longest
-- (so a row that was lost or changed shows too). It never asks what time it is. Keys that vanished are written as zeros.
-- Node first, then time: capacity is read by machine and by hour. No version column: the last row written wins, whatever the clock says.
-- statement
CREATE TABLE IF NOT EXISTS capacity_hour {on_cluster}
(
    node LowCardinality(String) COMMENT 'Node',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    state LowCardinality(String) COMMENT 'Capacity or energy state',
    reason String COMMENT 'Why the state is what it is; may be empty',
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    device_us Int128 COMMENT 'Device-time, µs: the states of an hour sum to what was in service',
    standing_rows Int64 COMMENT 'Usage lines that stand: the sum of sign',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(hour_at)
ORDER BY (node, hour_at, site, gpu_model, state, reason, tenant_id)
COMMENT 'Which capacity state installed devices were in, and whose, by hour'
-- statement
CREATE VIEW IF NOT EXISTS v_capacity_hour {on_cluster}
(
    node LowCardinality(String) COMMENT 'Node',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    state LowCardinality(String) COMMENT 'Capacity or energy state',
    reason String COMMENT 'Why the state is what it is; may be empty',
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    device_us Int128 COMMENT 'Device-time, µs: the states of an hour sum to what was in service',
    standing_rows Int64 COMMENT 'Usage lines that stand: the sum of sign',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    refresh_age_s Int64 COMMENT 'Age of the row, seconds'
)
AS SELECT
    node, hour_at, site, gpu_model, state, reason, tenant_id, device_us, standing_rows, refreshed_at,
    dateDiff('second', refreshed_at, now64(6)) AS refresh_age_s
FROM capacity_hour FINAL
WHERE NOT (standing_rows = 0 AND device_us = 0)
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Which capacity state installed devices were in, and whose, by hour. As of refreshed_at'
-- statement
CREATE MATERIALIZED VIEW IF NOT EXISTS r_capacity_hour {on_cluster}
REFRESH EVERY 1 MINUTE APPEND TO capacity_hour
(
    node LowCardinality(String) COMMENT 'Node',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    state LowCardinality(String) COMMENT 'Capacity or energy state',
    reason String COMMENT 'Why the state is what it is; may be empty',
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    device_us Int128 COMMENT 'Device-time, µs: the states of an hour sum to what was in service',
    standing_rows Int64 COMMENT 'Usage lines that stand: the sum of sign',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
AS WITH touched AS
    (
        SELECT toStartOfHour(start_at) AS hour_at FROM usage_lines
        WHERE inserted_at >= (SELECT max(inserted_through) FROM capacity_hour) - INTERVAL 5 MINUTE
        UNION DISTINCT
        SELECT hour_at FROM
        (SELECT hour_at, max(refreshed_at) AS last_at FROM capacity_hour GROUP BY hour_at ORDER BY last_at LIMIT 48)
    )
SELECT
    node, hour_at, site, gpu_model, state, reason, tenant_id,
    sum(device_time) AS device_us,
    sum(sign) AS standing_rows,
    now64(6) AS refreshed_at,
    (SELECT max(inserted_at) FROM usage_lines) AS inserted_through
FROM
(
    SELECT
        node, toStartOfHour(start_at) AS hour_at, site, gpu_model, state, reason, tenant_id,
        toInt64(sign) AS sign, toInt128(device_us) AS device_time
    FROM v_usage_lines
    WHERE toStartOfHour(start_at) IN (SELECT hour_at FROM touched)
        AND kind = 'time'
    UNION ALL
    SELECT
        node, hour_at, site, gpu_model, state, reason, tenant_id,
        toInt64(0) AS sign, toInt128(0) AS device_time
    FROM capacity_hour
    WHERE hour_at IN (SELECT hour_at FROM touched)
)
GROUP BY
    node, hour_at, site, gpu_model, state, reason, tenant_id
COMMENT 'Refreshes capacity_hour'
