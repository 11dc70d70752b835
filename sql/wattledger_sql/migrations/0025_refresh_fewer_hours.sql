-- Each refresh recomputed the 48 hours that had waited longest, in no order among equals: after a first build these lay
-- all over the month, and as tenants come first in the sort key, nearly every granule of the facts was read for them.
-- Now it is the six that have waited longest, the earliest first, so that they lie side by side. Nothing else changes.
-- Dropped and made again, as MODIFY QUERY forgets the comments of the columns; the tables that the views fill stay.
-- statement
DROP VIEW IF EXISTS r_tenant_margin_hour {on_cluster}
-- statement
CREATE MATERIALIZED VIEW IF NOT EXISTS r_tenant_margin_hour {on_cluster}
REFRESH EVERY 1 MINUTE APPEND TO tenant_margin_hour
(
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
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
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
AS WITH touched AS
    (
        SELECT toStartOfHour(start_at) AS hour_at FROM cost_rows
        WHERE inserted_at >= (SELECT max(inserted_through) FROM tenant_margin_hour) - INTERVAL 5 MINUTE
        UNION DISTINCT
        SELECT hour_at FROM
        (SELECT hour_at, max(refreshed_at) AS last_at FROM tenant_margin_hour GROUP BY hour_at ORDER BY last_at, hour_at LIMIT 6)
    )
SELECT
    tenant_id, hour_at, site, gpu_model, plan, sku,
    sumIf(quantity, component = 'compute' AND state = 'held') AS held_us,
    sumIf(quantity, component = 'compute' AND state = 'reserved_unused') AS reserved_unused_us,
    sumIf(quantity, component = 'compute' AND state = 'stranded') AS stranded_us,
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
        tenant_id, toStartOfHour(start_at) AS hour_at, site, gpu_model, plan, sku,
        component, state, status, currency AS currency_code, marginal, toInt64(sign) AS sign,
        toInt128(ifNull(quantity, 0)) AS quantity, ifNull(cost, toDecimal128(0, 12)) AS amount
    FROM v_cost_rows
    WHERE toStartOfHour(start_at) IN (SELECT hour_at FROM touched)
    UNION ALL
    SELECT
        tenant_id, hour_at, site, gpu_model, plan, sku,
        '' AS component, '' AS state, '' AS status, '' AS currency_code, false AS marginal, toInt64(0) AS sign,
        toInt128(0) AS quantity, toDecimal128(0, 12) AS amount
    FROM tenant_margin_hour
    WHERE hour_at IN (SELECT hour_at FROM touched)
)
GROUP BY
    tenant_id, hour_at, site, gpu_model, plan, sku
COMMENT 'Refreshes tenant_margin_hour'
-- statement
DROP VIEW IF EXISTS r_idle_burn_hour {on_cluster}
-- statement
CREATE MATERIALIZED VIEW IF NOT EXISTS r_idle_burn_hour {on_cluster}
REFRESH EVERY 1 MINUTE APPEND TO idle_burn_hour
(
    node LowCardinality(String) COMMENT 'Node',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    site LowCardinality(String) COMMENT 'Site',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    state LowCardinality(String) COMMENT 'Capacity or energy state',
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    device_us Int128 COMMENT 'Device-time, µs',
    energy_uj Int128 COMMENT 'Measured energy, µJ; incomplete while unmeasured_rows is not 0',
    cost_energy Decimal(38, 12) COMMENT 'Cost of energy, PUE included, in the currency',
    cost_compute Decimal(38, 12) COMMENT 'Cost of device-time at the compute rate, in the currency',
    cost_pools Decimal(38, 12) COMMENT 'Cost from the pools, in the currency',
    cost_marginal Decimal(38, 12) COMMENT 'Part of the cost that is paid in cash per use, in the currency: the marginal floor',
    cost_total Decimal(38, 12) COMMENT 'Cost in all, without idle shares, in the currency; incomplete while unpriced_rows is not 0',
    standing_rows Int64 COMMENT 'Cost rows that stand: the sum of sign',
    unpriced_rows Int64 COMMENT 'Cost rows that stand and have no price: the totals beside are incomplete by them',
    unmeasured_rows Int64 COMMENT 'Cost rows that stand and whose energy is unknown: the totals beside are incomplete by them',
    currency LowCardinality(String) COMMENT 'Currency of the amounts; several, joined by commas: the amounts may not be used',
    refreshed_at DateTime64(6, 'UTC') COMMENT 'When the row was computed, UTC',
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
AS WITH touched AS
    (
        SELECT toStartOfHour(start_at) AS hour_at FROM cost_rows
        WHERE inserted_at >= (SELECT max(inserted_through) FROM idle_burn_hour) - INTERVAL 5 MINUTE
        UNION DISTINCT
        SELECT hour_at FROM
        (SELECT hour_at, max(refreshed_at) AS last_at FROM idle_burn_hour GROUP BY hour_at ORDER BY last_at, hour_at LIMIT 6)
    )
SELECT
    node, hour_at, site, gpu_model, state, tenant_id,
    sumIf(quantity, component = 'compute') AS device_us,
    sumIf(quantity, component = 'energy') AS energy_uj,
    sumIf(amount, component = 'energy') AS cost_energy,
    sumIf(amount, component = 'compute') AS cost_compute,
    sumIf(amount, startsWith(component, 'pool:')) AS cost_pools,
    sumIf(amount, marginal AND component != 'billed') AS cost_marginal,
    sumIf(amount, component != 'billed') AS cost_total,
    sum(sign) AS standing_rows,
    sumIf(sign, status = 'unpriced' AND component != 'billed') AS unpriced_rows,
    sumIf(sign, status = 'unmeasured') AS unmeasured_rows,
    arrayStringConcat(arraySort(groupUniqArrayIf(currency_code, currency_code != '')), ',') AS currency,
    now64(6) AS refreshed_at,
    (SELECT max(inserted_at) FROM cost_rows) AS inserted_through
FROM
(
    SELECT
        node, toStartOfHour(start_at) AS hour_at, site, gpu_model, state, tenant_id,
        component, status, currency AS currency_code, marginal, toInt64(sign) AS sign,
        toInt128(ifNull(quantity, 0)) AS quantity, ifNull(cost, toDecimal128(0, 12)) AS amount
    FROM v_cost_rows
    WHERE toStartOfHour(start_at) IN (SELECT hour_at FROM touched)
        AND state != 'held' AND component != 'billed'
    UNION ALL
    SELECT
        node, hour_at, site, gpu_model, state, tenant_id,
        '' AS component, '' AS status, '' AS currency_code, false AS marginal, toInt64(0) AS sign,
        toInt128(0) AS quantity, toDecimal128(0, 12) AS amount
    FROM idle_burn_hour
    WHERE hour_at IN (SELECT hour_at FROM touched)
)
GROUP BY
    node, hour_at, site, gpu_model, state, tenant_id
COMMENT 'Refreshes idle_burn_hour'
-- statement
DROP VIEW IF EXISTS r_job_cost_hour {on_cluster}
-- statement
CREATE MATERIALIZED VIEW IF NOT EXISTS r_job_cost_hour {on_cluster}
REFRESH EVERY 1 MINUTE APPEND TO job_cost_hour
(
    tenant_id LowCardinality(String) COMMENT 'Who pays; __idle__, __reserved__, __unavailable__, __stranded__ and __unattributed__ are no customers',
    cluster LowCardinality(String) COMMENT 'Cluster of the job',
    job String COMMENT 'Job within its cluster',
    attempt Int32 COMMENT 'Attempt of the job, from 0',
    hour_at DateTime('UTC') COMMENT 'Start of the hour, UTC',
    project String COMMENT 'Project of the job; may be empty',
    model_tag String COMMENT 'Model tag of the job; empty: untagged',
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
    inserted_through DateTime64(6, 'UTC') COMMENT 'Newest insert that the computation saw, UTC'
)
AS WITH touched AS
    (
        SELECT toStartOfHour(start_at) AS hour_at FROM cost_rows
        WHERE inserted_at >= (SELECT max(inserted_through) FROM job_cost_hour) - INTERVAL 5 MINUTE
        UNION DISTINCT
        SELECT hour_at FROM
        (SELECT hour_at, max(refreshed_at) AS last_at FROM job_cost_hour GROUP BY hour_at ORDER BY last_at, hour_at LIMIT 6)
    )
SELECT
    tenant_id, cluster, job, attempt, hour_at, project, model_tag, gpu_model, plan, sku,
    sumIf(quantity, component = 'compute' AND state = 'held') AS held_us,
    sumIf(quantity, component = 'compute' AND state = 'reserved_unused') AS reserved_unused_us,
    sumIf(quantity, component = 'compute' AND state = 'stranded') AS stranded_us,
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
        tenant_id, cluster, job, attempt, toStartOfHour(start_at) AS hour_at, project, model_tag, gpu_model, plan, sku,
        component, state, status, currency AS currency_code, marginal, toInt64(sign) AS sign,
        toInt128(ifNull(quantity, 0)) AS quantity, ifNull(cost, toDecimal128(0, 12)) AS amount
    FROM v_cost_rows
    WHERE toStartOfHour(start_at) IN (SELECT hour_at FROM touched)
        AND job != ''
    UNION ALL
    SELECT
        tenant_id, cluster, job, attempt, hour_at, project, model_tag, gpu_model, plan, sku,
        '' AS component, '' AS state, '' AS status, '' AS currency_code, false AS marginal, toInt64(0) AS sign,
        toInt128(0) AS quantity, toDecimal128(0, 12) AS amount
    FROM job_cost_hour
    WHERE hour_at IN (SELECT hour_at FROM touched)
)
GROUP BY
    tenant_id, cluster, job, attempt, hour_at, project, model_tag, gpu_model, plan, sku
COMMENT 'Refreshes job_cost_hour'
-- statement
DROP VIEW IF EXISTS r_model_tag_cost_hour {on_cluster}
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
        (SELECT hour_at, max(refreshed_at) AS last_at FROM model_tag_cost_hour GROUP BY hour_at ORDER BY last_at, hour_at LIMIT 6)
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
-- statement
DROP VIEW IF EXISTS r_device_energy_hour {on_cluster}
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
        (SELECT hour_at, max(refreshed_at) AS last_at FROM device_energy_hour GROUP BY hour_at ORDER BY last_at, hour_at LIMIT 6)
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
-- statement
DROP VIEW IF EXISTS r_capacity_hour {on_cluster}
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
        (SELECT hour_at, max(refreshed_at) AS last_at FROM capacity_hour GROUP BY hour_at ORDER BY last_at, hour_at LIMIT 6)
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
-- statement
DROP VIEW IF EXISTS r_discrepancy_count_hour {on_cluster}
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
        (SELECT hour_at, max(refreshed_at) AS last_at FROM discrepancy_count_hour GROUP BY hour_at ORDER BY last_at, hour_at LIMIT 6)
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
