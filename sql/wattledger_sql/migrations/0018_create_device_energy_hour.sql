-- Measured energy of each device, by energy state, by hour: a refreshable view over the folded facts, so that a replay can't inflate it.
-- Each refresh recomputes whole hours: those with rows inserted since the last one, and the 48 that have waited longest
-- (so a row that was lost or changed shows too). It never asks what time it is. Keys that vanished are written as zeros.
-- Node and device first: a device is read over time. No version column: the last row written wins, whatever the clock says.
-- statement
CREATE TABLE IF NOT EXISTS device_energy_hour {on_cluster}
(
    node LowCardinality(String) COMMENT 'Node',
    device String COMMENT 'Device: the UUID of the physical GPU',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    state LowCardinality(String) COMMENT 'Capacity or energy state',
    energy_uj Int128 COMMENT 'Measured energy, µJ; incomplete while unknown_us is not 0',
    idle_energy_uj Int128 COMMENT 'Part of the energy while the device was not busy, µJ',
    busy_us Int128 COMMENT 'Time the device was busy, µs',
    measured_us Int128 COMMENT 'Time whose energy is known, µs; counted once a holder',
    unknown_us Int128 COMMENT 'Time whose energy is unknown, µs; counted once a holder',
    standing_rows Int64 COMMENT 'Usage lines that stand: the sum of sign',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(hour_at)
ORDER BY (node, device, hour_at, site, gpu_model, state)
COMMENT 'Measured energy of each device, by energy state, by hour'
-- statement
CREATE VIEW IF NOT EXISTS v_device_energy_hour {on_cluster}
(
    node LowCardinality(String) COMMENT 'Node',
    device String COMMENT 'Device: the UUID of the physical GPU',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    state LowCardinality(String) COMMENT 'Capacity or energy state',
    energy_uj Int128 COMMENT 'Measured energy, µJ; incomplete while unknown_us is not 0',
    idle_energy_uj Int128 COMMENT 'Part of the energy while the device was not busy, µJ',
    busy_us Int128 COMMENT 'Time the device was busy, µs',
    measured_us Int128 COMMENT 'Time whose energy is known, µs; counted once a holder',
    unknown_us Int128 COMMENT 'Time whose energy is unknown, µs; counted once a holder',
    standing_rows Int64 COMMENT 'Usage lines that stand: the sum of sign',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    refresh_age_s Int64 COMMENT 'Age of the row, seconds'
)
AS SELECT
    node, device, hour_at, site, gpu_model, state, energy_uj, idle_energy_uj, busy_us, measured_us, unknown_us,
    standing_rows, refreshed_at, dateDiff('second', refreshed_at, now64(6)) AS refresh_age_s
FROM device_energy_hour FINAL
WHERE NOT (standing_rows = 0 AND energy_uj = 0)
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Measured energy of each device, by energy state, by hour. As of refreshed_at'
-- statement
CREATE MATERIALIZED VIEW IF NOT EXISTS r_device_energy_hour {on_cluster}
REFRESH EVERY 1 MINUTE APPEND TO device_energy_hour
(
    node LowCardinality(String) COMMENT 'Node',
    device String COMMENT 'Device: the UUID of the physical GPU',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    state LowCardinality(String) COMMENT 'Capacity or energy state',
    energy_uj Int128 COMMENT 'Measured energy, µJ; incomplete while unknown_us is not 0',
    idle_energy_uj Int128 COMMENT 'Part of the energy while the device was not busy, µJ',
    busy_us Int128 COMMENT 'Time the device was busy, µs',
    measured_us Int128 COMMENT 'Time whose energy is known, µs; counted once a holder',
    unknown_us Int128 COMMENT 'Time whose energy is unknown, µs; counted once a holder',
    standing_rows Int64 COMMENT 'Usage lines that stand: the sum of sign',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
AS WITH touched AS
    (
        SELECT toStartOfHour(start_at) AS hour_at FROM usage_lines
        WHERE inserted_at >= (SELECT max(inserted_through) FROM device_energy_hour) - INTERVAL 5 MINUTE
        UNION DISTINCT
        SELECT hour_at FROM
        (SELECT hour_at, max(refreshed_at) AS last_at FROM device_energy_hour GROUP BY hour_at ORDER BY last_at LIMIT 48)
    )
SELECT
    node, device, hour_at, site, gpu_model, state,
    sum(energy) AS energy_uj,
    sum(idle_energy) AS idle_energy_uj,
    sum(busy) AS busy_us,
    sumIf(span, known) AS measured_us,
    sumIf(span, NOT known) AS unknown_us,
    sum(sign) AS standing_rows,
    now64(6) AS refreshed_at,
    (SELECT max(inserted_at) FROM usage_lines) AS inserted_through
FROM
(
    SELECT
        node, device, toStartOfHour(start_at) AS hour_at, site, gpu_model, state,
        toInt64(sign) AS sign, energy_uj IS NOT NULL AS known, toInt128(ifNull(energy_uj, 0)) AS energy,
        toInt128(idle_energy_uj) AS idle_energy, toInt128(busy_us) AS busy, toInt128(span_us) AS span
    FROM v_usage_lines
    WHERE toStartOfHour(start_at) IN (SELECT hour_at FROM touched)
        AND kind = 'energy'
    UNION ALL
    SELECT
        node, device, hour_at, site, gpu_model, state,
        toInt64(0) AS sign, false AS known, toInt128(0) AS energy, toInt128(0) AS idle_energy, toInt128(0) AS busy,
        toInt128(0) AS span
    FROM device_energy_hour
    WHERE hour_at IN (SELECT hour_at FROM touched)
)
GROUP BY
    node, device, hour_at, site, gpu_model, state
COMMENT 'Refreshes device_energy_hour'
