-- What jobs of each model tag held, cost and were billed; untagged work under an empty tag, by hour: a refreshable view over the folded facts, so that a replay can't inflate it.
-- Each refresh recomputes whole hours: those with rows inserted since the last one, and the 48 that have waited longest
-- (so a row that was lost or changed shows too). It never asks what time it is. Keys that vanished are written as zeros.
-- Tenant first (row policies), then the tag. No version column: the last row written wins, whatever the clock says.
-- statement
CREATE TABLE IF NOT EXISTS model_tag_cost_hour {on_cluster}
(
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    held_us Int128 COMMENT 'Device-time held, µs',
    billed_us Int128 COMMENT 'Device-time that the rate card bills, µs',
    energy_uj Int128 COMMENT 'Measured energy, µJ; incomplete while unmeasured_rows is not 0',
    cost_energy Decimal(38, 12) COMMENT 'Cost of energy, PUE included, in the currency',
    cost_compute Decimal(38, 12) COMMENT 'Cost of device-time at the compute rate, in the currency',
    cost_pools Decimal(38, 12) COMMENT 'Cost from the pools, in the currency',
    cost_marginal Decimal(38, 12) COMMENT 'Part of the cost that is paid in cash per use, in the currency: the marginal floor',
    cost_total Decimal(38, 12) COMMENT 'Cost in all, without idle shares, in the currency; incomplete while unpriced_rows is not 0',
    billed Decimal(38, 12) COMMENT 'What the rate card bills, in the currency; incomplete while unbilled_rows is not 0',
    standing_rows Int64 COMMENT 'Cost rows that stand: the sum of sign',
    unpriced_rows Int64 COMMENT 'Cost rows that stand and have no price: the totals beside are incomplete by them',
    unbilled_rows Int64 COMMENT 'Rows that stand and have no rate to bill by: billed is incomplete by them',
    unmeasured_rows Int64 COMMENT 'Cost rows that stand and whose energy is unknown: the totals beside are incomplete by them',
    currency LowCardinality(String) COMMENT 'Currency of the amounts; several, joined by commas: the amounts may not be used',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(hour_at)
ORDER BY (tenant_id, model_tag, hour_at, gpu_model)
COMMENT 'What jobs of each model tag held, cost and were billed; untagged work under an empty tag, by hour'
-- statement
CREATE VIEW IF NOT EXISTS v_model_tag_cost_hour {on_cluster}
(
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    held_us Int128 COMMENT 'Device-time held, µs',
    billed_us Int128 COMMENT 'Device-time that the rate card bills, µs',
    energy_uj Int128 COMMENT 'Measured energy, µJ; incomplete while unmeasured_rows is not 0',
    cost_energy Decimal(38, 12) COMMENT 'Cost of energy, PUE included, in the currency',
    cost_compute Decimal(38, 12) COMMENT 'Cost of device-time at the compute rate, in the currency',
    cost_pools Decimal(38, 12) COMMENT 'Cost from the pools, in the currency',
    cost_marginal Decimal(38, 12) COMMENT 'Part of the cost that is paid in cash per use, in the currency: the marginal floor',
    cost_total Decimal(38, 12) COMMENT 'Cost in all, without idle shares, in the currency; incomplete while unpriced_rows is not 0',
    billed Decimal(38, 12) COMMENT 'What the rate card bills, in the currency; incomplete while unbilled_rows is not 0',
    standing_rows Int64 COMMENT 'Cost rows that stand: the sum of sign',
    unpriced_rows Int64 COMMENT 'Cost rows that stand and have no price: the totals beside are incomplete by them',
    unbilled_rows Int64 COMMENT 'Rows that stand and have no rate to bill by: billed is incomplete by them',
    unmeasured_rows Int64 COMMENT 'Cost rows that stand and whose energy is unknown: the totals beside are incomplete by them',
    currency LowCardinality(String) COMMENT 'Currency of the amounts; several, joined by commas: the amounts may not be used',
    margin Decimal(38, 12) COMMENT 'Billed less cost_total, without idle shares, in the currency',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    refresh_age_s Int64 COMMENT 'Age of the row, seconds'
)
AS SELECT
    tenant_id, model_tag, hour_at, gpu_model, held_us, billed_us, energy_uj, cost_energy, cost_compute, cost_pools,
    cost_marginal, cost_total, billed, standing_rows, unpriced_rows, unbilled_rows, unmeasured_rows, currency,
    billed - cost_total AS margin, refreshed_at, dateDiff('second', refreshed_at, now64(6)) AS refresh_age_s
FROM model_tag_cost_hour FINAL
WHERE NOT (standing_rows = 0 AND cost_total = 0 AND billed = 0)
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'What jobs of each model tag held, cost and were billed; untagged work under an empty tag, by hour. As of refreshed_at'
-- statement
CREATE MATERIALIZED VIEW IF NOT EXISTS r_model_tag_cost_hour {on_cluster}
REFRESH EVERY 1 MINUTE APPEND TO model_tag_cost_hour
(
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    held_us Int128 COMMENT 'Device-time held, µs',
    billed_us Int128 COMMENT 'Device-time that the rate card bills, µs',
    energy_uj Int128 COMMENT 'Measured energy, µJ; incomplete while unmeasured_rows is not 0',
    cost_energy Decimal(38, 12) COMMENT 'Cost of energy, PUE included, in the currency',
    cost_compute Decimal(38, 12) COMMENT 'Cost of device-time at the compute rate, in the currency',
    cost_pools Decimal(38, 12) COMMENT 'Cost from the pools, in the currency',
    cost_marginal Decimal(38, 12) COMMENT 'Part of the cost that is paid in cash per use, in the currency: the marginal floor',
    cost_total Decimal(38, 12) COMMENT 'Cost in all, without idle shares, in the currency; incomplete while unpriced_rows is not 0',
    billed Decimal(38, 12) COMMENT 'What the rate card bills, in the currency; incomplete while unbilled_rows is not 0',
    standing_rows Int64 COMMENT 'Cost rows that stand: the sum of sign',
    unpriced_rows Int64 COMMENT 'Cost rows that stand and have no price: the totals beside are incomplete by them',
    unbilled_rows Int64 COMMENT 'Rows that stand and have no rate to bill by: billed is incomplete by them',
    unmeasured_rows Int64 COMMENT 'Cost rows that stand and whose energy is unknown: the totals beside are incomplete by them',
    currency LowCardinality(String) COMMENT 'Currency of the amounts; several, joined by commas: the amounts may not be used',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
AS WITH touched AS
    (
        SELECT toStartOfHour(start_at) AS hour_at FROM cost_rows
        WHERE inserted_at >= (SELECT max(inserted_through) FROM model_tag_cost_hour) - INTERVAL 5 MINUTE
        UNION DISTINCT
        SELECT hour_at FROM
        (SELECT hour_at, max(refreshed_at) AS last_at FROM model_tag_cost_hour GROUP BY hour_at ORDER BY last_at LIMIT 48)
    )
SELECT
    tenant_id, model_tag, hour_at, gpu_model,
    sumIf(quantity, component = 'compute' AND state = 'held') AS held_us,
    sumIf(quantity, component = 'billed' AND status = 'priced') AS billed_us,
    sumIf(quantity, component = 'energy') AS energy_uj,
    sumIf(amount, component = 'energy') AS cost_energy,
    sumIf(amount, component = 'compute') AS cost_compute,
    sumIf(amount, startsWith(component, 'pool:')) AS cost_pools,
    sumIf(amount, marginal AND component != 'billed') AS cost_marginal,
    sumIf(amount, component != 'billed') AS cost_total,
    sumIf(amount, component = 'billed') AS billed,
    sum(sign) AS standing_rows,
    sumIf(sign, status = 'unpriced' AND component != 'billed') AS unpriced_rows,
    sumIf(sign, status = 'unpriced' AND component = 'billed') AS unbilled_rows,
    sumIf(sign, status = 'unmeasured') AS unmeasured_rows,
    arrayStringConcat(arraySort(groupUniqArrayIf(currency_code, currency_code != '')), ',') AS currency,
    now64(6) AS refreshed_at,
    (SELECT max(inserted_at) FROM cost_rows) AS inserted_through
FROM
(
    SELECT
        tenant_id, model_tag, toStartOfHour(start_at) AS hour_at, gpu_model,
        component, state, status, currency AS currency_code, marginal, toInt64(sign) AS sign,
        toInt128(ifNull(quantity, 0)) AS quantity, ifNull(cost, toDecimal128(0, 12)) AS amount
    FROM v_cost_rows
    WHERE toStartOfHour(start_at) IN (SELECT hour_at FROM touched)
        AND state = 'held'
    UNION ALL
    SELECT
        tenant_id, model_tag, hour_at, gpu_model,
        '' AS component, '' AS state, '' AS status, '' AS currency_code, false AS marginal, toInt64(0) AS sign,
        toInt128(0) AS quantity, toDecimal128(0, 12) AS amount
    FROM model_tag_cost_hour
    WHERE hour_at IN (SELECT hour_at FROM touched)
)
GROUP BY
    tenant_id, model_tag, hour_at, gpu_model
COMMENT 'Refreshes model_tag_cost_hour'
