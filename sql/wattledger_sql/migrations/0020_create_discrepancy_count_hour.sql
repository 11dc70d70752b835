-- Discrepancies by kind, by hour: a refreshable view over the folded facts, so that a replay can't inflate it.
-- Each refresh recomputes whole hours: those with rows inserted since the last one, and the 48 that have waited longest
-- (so a row that was lost or changed shows too). It never asks what time it is. Keys that vanished are written as zeros.
-- Node first: the question is which machine contradicts itself. No version column: the last row written wins, whatever the clock says.
-- statement
CREATE TABLE IF NOT EXISTS discrepancy_count_hour {on_cluster}
(
    node LowCardinality(String) COMMENT 'Node',
    kind LowCardinality(String) COMMENT 'What contradicts what',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    discrepancies UInt64 COMMENT 'Discrepancies that start in the hour',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(hour_at)
ORDER BY (node, kind, hour_at)
COMMENT 'Discrepancies by kind, by hour'
-- statement
CREATE VIEW IF NOT EXISTS v_discrepancy_count_hour {on_cluster}
(
    node LowCardinality(String) COMMENT 'Node',
    kind LowCardinality(String) COMMENT 'What contradicts what',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    discrepancies UInt64 COMMENT 'Discrepancies that start in the hour',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    refresh_age_s Int64 COMMENT 'Age of the row, seconds'
)
AS SELECT
    node, kind, hour_at, discrepancies, refreshed_at, dateDiff('second', refreshed_at, now64(6)) AS refresh_age_s
FROM discrepancy_count_hour FINAL
WHERE NOT (discrepancies = 0)
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Discrepancies by kind, by hour. As of refreshed_at'
-- statement
CREATE MATERIALIZED VIEW IF NOT EXISTS r_discrepancy_count_hour {on_cluster}
REFRESH EVERY 1 MINUTE APPEND TO discrepancy_count_hour
(
    node LowCardinality(String) COMMENT 'Node',
    kind LowCardinality(String) COMMENT 'What contradicts what',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    discrepancies UInt64 COMMENT 'Discrepancies that start in the hour',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
AS WITH touched AS
    (
        SELECT toStartOfHour(start_at) AS hour_at FROM discrepancies
        WHERE inserted_at >= (SELECT max(inserted_through) FROM discrepancy_count_hour) - INTERVAL 5 MINUTE
        UNION DISTINCT
        SELECT hour_at FROM
        (SELECT hour_at, max(refreshed_at) AS last_at FROM discrepancy_count_hour GROUP BY hour_at ORDER BY last_at LIMIT 48)
    )
SELECT
    node, kind, hour_at,
    uniqExactIf(id, id != '') AS discrepancies,
    now64(6) AS refreshed_at,
    (SELECT max(inserted_at) FROM discrepancies) AS inserted_through
FROM
(
    SELECT
        node, kind, toStartOfHour(start_at) AS hour_at,
        discrepancy_id AS id
    FROM v_discrepancies
    WHERE toStartOfHour(start_at) IN (SELECT hour_at FROM touched)
    UNION ALL
    SELECT
        node, kind, hour_at,
        '' AS id
    FROM discrepancy_count_hour
    WHERE hour_at IN (SELECT hour_at FROM touched)
)
GROUP BY
    node, kind, hour_at
COMMENT 'Refreshes discrepancy_count_hour'
