-- How far a node is metered is a greatest time, which no row sent twice changes: the totals are read as they lie, and not
-- FINAL, which read and compared all of them for every look at the live cost. Nothing else changes.
-- statement
DROP VIEW IF EXISTS v_running_cost {on_cluster}
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
        SELECT node, max(group_end_at) AS metered_at FROM device_totals WHERE kind = 'time' GROUP BY node
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
