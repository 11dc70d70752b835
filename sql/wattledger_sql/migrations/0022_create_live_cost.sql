-- Live cost: what is metered of the day, and an estimate of what runs and is not metered yet. Plain views, always as of
-- the facts. "Now" is the latest tick that every job-events partition has marked, never the clock of the server.
-- No price is matched here: the estimate takes the rates that were last applied (of the day before the mark), so there
-- is one place that prices. Energy is not estimated: it is metered within two minutes.
-- statement
CREATE VIEW IF NOT EXISTS v_running_cost {on_cluster}
(
    tenant_id LowCardinality(String) COMMENT 'Tenant that holds it',
    node LowCardinality(String) COMMENT 'Node',
    device String COMMENT 'Device: the UUID of the physical GPU',
    gpu_instance LowCardinality(String) COMMENT 'MIG instance; empty: the whole device',
    cluster LowCardinality(String) COMMENT 'Cluster of the job',
    job String COMMENT 'Job within its cluster',
    attempt Int32 COMMENT 'Attempt of the job, from 0',
    allocation_id String COMMENT 'The allocation',
    site LowCardinality(String) COMMENT 'Site of the node',
    gpu_model LowCardinality(String) COMMENT 'Model of the GPU',
    plan LowCardinality(String) COMMENT 'Plan of the holder',
    sku LowCardinality(String) COMMENT 'SKU; may be empty',
    from_at DateTime64(6, 'UTC') COMMENT 'Where metering of the node has got to, or the start of the hold, UTC',
    as_of_at DateTime64(6, 'UTC') COMMENT 'Up to where it is estimated: the latest mark, or what the tenant pays until, UTC',
    device_us Int64 COMMENT 'Its share of the device over that time, µs',
    cost_estimate Nullable(Decimal(38, 12)) COMMENT 'Estimate of compute and pools by time, at the rates last applied to that model and site; NULL: none was yet',
    billed_estimate Nullable(Decimal(38, 12)) COMMENT 'Estimate of what is billed, at the rate last applied to that tenant, model, plan and SKU; NULL: none was yet',
    currency LowCardinality(String) COMMENT 'Currency of the estimates; empty without one',
    is_estimate Bool COMMENT 'Always true: no bill is made of this'
)
AS WITH
    assumeNotNull((SELECT min(source_at) FROM (SELECT max(marked_at) AS source_at FROM v_marks GROUP BY origin_partition))) AS now_at,
    metered AS
    (
        SELECT node, max(group_end_at) AS metered_at FROM v_device_totals WHERE kind = 'time' GROUP BY node
    ),
    installed AS
    (
        SELECT node, listed.1 AS device, any(listed.3) AS gpu_model, any(site) AS site
        FROM v_node_facts ARRAY JOIN devices AS listed
        WHERE kind = 'inventory' AND start_at <= now_at AND (end_at IS NULL OR end_at > now_at)
        GROUP BY node, device
    ),
    applied AS
    (
        SELECT site, gpu_model, component, argMax(rate, (start_at, row_id)) AS last_rate, argMax(currency, (start_at, row_id)) AS last_currency
        FROM cost_rows
        WHERE unit = 'us' AND status = 'priced' AND state = 'held' AND component != 'billed'
            AND start_at >= now_at - INTERVAL 1 DAY AND start_at < now_at
        GROUP BY site, gpu_model, component
    ),
    cost_rate AS
    (
        SELECT site, gpu_model, sum(last_rate) AS rate, any(last_currency) AS currency FROM applied GROUP BY site, gpu_model
    ),
    billed_rate AS
    (
        SELECT tenant_id, site, gpu_model, plan, sku, argMax(rate, (start_at, row_id)) AS rate
        FROM cost_rows
        WHERE status = 'priced' AND state = 'held' AND component = 'billed'
            AND start_at >= now_at - INTERVAL 1 DAY AND start_at < now_at
        GROUP BY tenant_id, site, gpu_model, plan, sku
    ),
    open AS
    (
        SELECT
            tenant_id, allocation.node AS node, allocation.device AS device, gpu_instance, cluster, job, attempt,
            allocation_id, plan, sku, share_num, share_den, installed.site AS site, installed.gpu_model AS gpu_model,
            greatest(start_at, metered_at) AS open_from_at,
            least(now_at, ifNull(end_at, now_at), ifNull(stop_requested_at, now_at)) AS open_to_at
        FROM v_allocations AS allocation
        LEFT JOIN metered ON metered.node = allocation.node
        LEFT JOIN installed ON installed.node = allocation.node AND installed.device = allocation.device
        WHERE open_from_at < open_to_at
    )
SELECT
    open.tenant_id AS tenant_id, open.node AS node, open.device AS device, open.gpu_instance AS gpu_instance,
    open.cluster AS cluster, open.job AS job, open.attempt AS attempt, open.allocation_id AS allocation_id,
    open.site AS site, open.gpu_model AS gpu_model, open.plan AS plan, open.sku AS sku,
    open.open_from_at AS from_at, open.open_to_at AS as_of_at,
    intDiv(dateDiff('microsecond', open_from_at, open_to_at) * open.share_num, open.share_den) AS device_us,
    CAST(toDecimal256(cost_rate.rate, 12) * device_us / 3600000000 AS Nullable(Decimal(38, 12))) AS cost_estimate,
    CAST(toDecimal256(billed_rate.rate, 12) * device_us / 3600000000 AS Nullable(Decimal(38, 12))) AS billed_estimate,
    cost_rate.currency AS currency,
    true AS is_estimate
FROM open
LEFT JOIN cost_rate ON cost_rate.site = open.site AND cost_rate.gpu_model = open.gpu_model
LEFT JOIN billed_rate ON billed_rate.tenant_id = open.tenant_id AND billed_rate.site = open.site
    AND billed_rate.gpu_model = open.gpu_model AND billed_rate.plan = open.plan AND billed_rate.sku = open.sku
COMMENT 'Estimate of what open allocations cost beyond what is metered'
-- statement
CREATE VIEW IF NOT EXISTS v_live_cost {on_cluster}
(
    tenant_id LowCardinality(String) COMMENT 'Tenant',
    day_on Date COMMENT 'Day of the latest mark, UTC',
    as_of_at DateTime64(6, 'UTC') COMMENT 'The latest mark, UTC: now, as the data knows it',
    cost_metered Decimal(38, 12) COMMENT 'Cost of the day so far from cost rows, in the currency; incomplete while unpriced_rows is not 0',
    cost_running Decimal(38, 12) COMMENT 'Estimate of what runs and is not metered yet, in the currency',
    cost_estimate Decimal(38, 12) COMMENT 'Both together',
    billed_metered Decimal(38, 12) COMMENT 'Billed of the day so far, in the currency',
    billed_running Decimal(38, 12) COMMENT 'Estimate for what runs and is not metered yet',
    billed_estimate Decimal(38, 12) COMMENT 'Both together',
    running_us Int128 COMMENT 'Device-time that runs and is not metered yet, µs',
    running_without_rate_us Int128 COMMENT 'Part of it that no rate is known for: missing from the estimates, µs',
    unpriced_rows Int64 COMMENT 'Cost rows of the day that stand and have no price',
    currency LowCardinality(String) COMMENT 'Currency of the amounts; several, joined by commas: the amounts may not be used',
    is_estimate Bool COMMENT 'Always true: no bill is made of this'
)
AS WITH assumeNotNull((SELECT min(source_at) FROM (SELECT max(marked_at) AS source_at FROM v_marks GROUP BY origin_partition))) AS now_at
SELECT
    tenant_id,
    toDate(now_at) AS day_on,
    now_at AS as_of_at,
    sum(cost) AS cost_metered,
    sum(running_cost) AS cost_running,
    cost_metered + cost_running AS cost_estimate,
    sum(billed) AS billed_metered,
    sum(running_billed) AS billed_running,
    billed_metered + billed_running AS billed_estimate,
    sum(open_us) AS running_us,
    sum(unknown_us) AS running_without_rate_us,
    sum(unpriced) AS unpriced_rows,
    arrayStringConcat(arraySort(groupUniqArrayIf(currency_code, currency_code != '')), ',') AS currency,
    true AS is_estimate
FROM
(
    SELECT
        tenant_id,
        if(component = 'billed', toDecimal128(0, 12), ifNull(v_cost_rows.cost, toDecimal128(0, 12))) AS cost,
        if(component = 'billed', ifNull(v_cost_rows.cost, toDecimal128(0, 12)), toDecimal128(0, 12)) AS billed,
        toDecimal128(0, 12) AS running_cost, toDecimal128(0, 12) AS running_billed,
        toInt128(0) AS open_us, toInt128(0) AS unknown_us,
        if(status = 'unpriced', toInt64(sign), toInt64(0)) AS unpriced, currency AS currency_code
    FROM v_cost_rows
    WHERE start_at >= toStartOfDay(now_at) AND start_at < now_at
    UNION ALL
    SELECT
        tenant_id,
        toDecimal128(0, 12) AS cost, toDecimal128(0, 12) AS billed,
        ifNull(cost_estimate, toDecimal128(0, 12)) AS running_cost,
        ifNull(billed_estimate, toDecimal128(0, 12)) AS running_billed,
        toInt128(device_us) AS open_us, if(cost_estimate IS NULL, toInt128(device_us), toInt128(0)) AS unknown_us,
        toInt64(0) AS unpriced, currency AS currency_code
    FROM v_running_cost
)
GROUP BY tenant_id
COMMENT 'Cost of the running day by tenant: metered, and an estimate of what runs'
