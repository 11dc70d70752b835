-- What each tenant held, cost and was billed, by day: the sum of the hours, refreshed like them; days touched since the last refresh, and
-- the seven that have waited longest. A refresh of a day sees the hours as they stand, so it follows them within a minute.
-- statement
CREATE TABLE IF NOT EXISTS tenant_margin_day {on_cluster}
(
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    day_on Date COMMENT 'Day, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    plan LowCardinality(String) COMMENT 'Plan of the holder; empty without one',
    sku LowCardinality(String) COMMENT 'SKU; may be empty',
    held_us Int128 COMMENT 'Device-time held, µs',
    reserved_unused_us Int128 COMMENT 'Device-time reserved and not used, µs',
    stranded_us Int128 COMMENT 'Device-time that others could not take because of the tenant''s exclusive jobs, µs',
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
    hours_through DateTime64(6, 'UTC') COMMENT 'Newest refresh of an hour that the computation saw, UTC'
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(day_on)
ORDER BY (tenant_id, day_on, site, gpu_model, plan, sku)
COMMENT 'What each tenant held, cost and was billed, by UTC day'
-- statement
CREATE VIEW IF NOT EXISTS v_tenant_margin_day {on_cluster}
(
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    day_on Date COMMENT 'Day, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    plan LowCardinality(String) COMMENT 'Plan of the holder; empty without one',
    sku LowCardinality(String) COMMENT 'SKU; may be empty',
    held_us Int128 COMMENT 'Device-time held, µs',
    reserved_unused_us Int128 COMMENT 'Device-time reserved and not used, µs',
    stranded_us Int128 COMMENT 'Device-time that others could not take because of the tenant''s exclusive jobs, µs',
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
    is_customer Bool COMMENT 'Whether the tenant is a customer and not a reserved name',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    refresh_age_s Int64 COMMENT 'Age of the row, seconds'
)
AS SELECT
    tenant_id, day_on, site, gpu_model, plan, sku, held_us, reserved_unused_us, stranded_us, billed_us, energy_uj,
    cost_energy, cost_compute, cost_pools, cost_marginal, cost_total, billed, standing_rows, unpriced_rows,
    unbilled_rows, unmeasured_rows, currency, billed - cost_total AS margin,
    NOT startsWith(tenant_id, '__') AS is_customer, refreshed_at,
    dateDiff('second', refreshed_at, now64(6)) AS refresh_age_s
FROM tenant_margin_day FINAL
WHERE NOT (standing_rows = 0 AND cost_total = 0 AND billed = 0)
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'What each tenant held, cost and was billed, by UTC day. As of refreshed_at'
-- statement
CREATE MATERIALIZED VIEW IF NOT EXISTS r_tenant_margin_day {on_cluster}
REFRESH EVERY 1 MINUTE OFFSET 30 SECOND APPEND TO tenant_margin_day
(
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    day_on Date COMMENT 'Day, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    plan LowCardinality(String) COMMENT 'Plan of the holder; empty without one',
    sku LowCardinality(String) COMMENT 'SKU; may be empty',
    held_us Int128 COMMENT 'Device-time held, µs',
    reserved_unused_us Int128 COMMENT 'Device-time reserved and not used, µs',
    stranded_us Int128 COMMENT 'Device-time that others could not take because of the tenant''s exclusive jobs, µs',
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
    hours_through DateTime64(6, 'UTC') COMMENT 'Newest refresh of an hour that the computation saw, UTC'
)
AS WITH touched AS
    (
        SELECT toDate(hour_at) AS day_on FROM tenant_margin_hour
        WHERE refreshed_at >= (SELECT max(hours_through) FROM tenant_margin_day) - INTERVAL 5 MINUTE
        UNION DISTINCT
        SELECT day_on FROM
        (SELECT day_on, max(refreshed_at) AS last_at FROM tenant_margin_day GROUP BY day_on ORDER BY last_at LIMIT 7)
    )
SELECT
    tenant_id, day_on, site, gpu_model, plan, sku,
    sum(part.held_us) AS held_us,
    sum(part.reserved_unused_us) AS reserved_unused_us,
    sum(part.stranded_us) AS stranded_us,
    sum(part.billed_us) AS billed_us,
    sum(part.energy_uj) AS energy_uj,
    sum(part.cost_energy) AS cost_energy,
    sum(part.cost_compute) AS cost_compute,
    sum(part.cost_pools) AS cost_pools,
    sum(part.cost_marginal) AS cost_marginal,
    sum(part.cost_total) AS cost_total,
    sum(part.billed) AS billed,
    sum(part.standing_rows) AS standing_rows,
    sum(part.unpriced_rows) AS unpriced_rows,
    sum(part.unbilled_rows) AS unbilled_rows,
    sum(part.unmeasured_rows) AS unmeasured_rows,
    arrayStringConcat(arraySort(groupUniqArrayIf(part.currency, part.currency != '')), ',') AS currency,
    now64(6) AS refreshed_at,
    (SELECT max(refreshed_at) FROM tenant_margin_hour) AS hours_through
FROM
(
    SELECT
        tenant_id, toDate(hour_at) AS day_on, site, gpu_model, plan, sku,
        held_us, reserved_unused_us, stranded_us, billed_us, energy_uj, cost_energy, cost_compute, cost_pools,
        cost_marginal, cost_total, billed, standing_rows, unpriced_rows, unbilled_rows, unmeasured_rows, currency
    FROM v_tenant_margin_hour
    WHERE toDate(hour_at) IN (SELECT day_on FROM touched)
    UNION ALL
    SELECT
        tenant_id, day_on, site, gpu_model, plan, sku,
        toInt128(0) AS held_us, toInt128(0) AS reserved_unused_us, toInt128(0) AS stranded_us,
        toInt128(0) AS billed_us, toInt128(0) AS energy_uj, toDecimal128(0, 12) AS cost_energy,
        toDecimal128(0, 12) AS cost_compute, toDecimal128(0, 12) AS cost_pools, toDecimal128(0, 12) AS cost_marginal,
        toDecimal128(0, 12) AS cost_total, toDecimal128(0, 12) AS billed, toInt64(0) AS standing_rows,
        toInt64(0) AS unpriced_rows, toInt64(0) AS unbilled_rows, toInt64(0) AS unmeasured_rows, '' AS currency
    FROM tenant_margin_day
    WHERE day_on IN (SELECT day_on FROM touched)
) AS part
GROUP BY
    tenant_id, day_on, site, gpu_model, plan, sku
COMMENT 'Refreshes tenant_margin_day'
