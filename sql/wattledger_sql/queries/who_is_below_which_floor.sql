-- Who is below which floor? One row a customer and plan, worst first, with both floors, what was billed, and the verdict:
-- loses cash, covers cash not capital, depends on the idle policy, healthy, insufficient data. Idle of a pool (site ×
-- model) is shared by held time (weighted) or among its tenants (even); nothing is charged for idle of another model.
-- Prices per GPU-hour are for orientation, cut to 12 decimals; the audit rounds its own. Internal and trial plans are shown,
-- but are not to be repriced.
WITH
    use AS
    (
        SELECT
            tenant_id, plan, site, gpu_model,
            sum(margin.held_us) AS held, sum(margin.billed_us) AS billable,
            sum(margin.cost_marginal) AS marginal_cost, sum(margin.cost_total) AS own_cost, sum(margin.billed) AS bill,
            sum(margin.unpriced_rows + margin.unbilled_rows) AS unpriced,
            groupUniqArrayIf(margin.currency, margin.currency != '') AS currencies
        FROM v_tenant_margin_hour AS margin
        WHERE is_customer
        GROUP BY tenant_id, plan, site, gpu_model
    ),
    pool AS
    (
        SELECT site, gpu_model, sum(burn.cost_total) AS idle_cost, sum(burn.unpriced_rows) AS idle_unpriced
        FROM v_idle_burn_hour AS burn
        WHERE tenant_id = '__idle__'
        GROUP BY site, gpu_model
    ),
    holders AS
    (
        SELECT site, gpu_model, sum(tenant_held) AS pool_held, countIf(tenant_held > 0) AS pool_tenants,
            groupArray((tenant_id, tenant_held)) AS tenants
        FROM (SELECT site, gpu_model, tenant_id, sum(held) AS tenant_held FROM use GROUP BY site, gpu_model, tenant_id)
        GROUP BY site, gpu_model
    ),
    measured AS
    (
        SELECT tenant_id, plan, sum(intDiv(time_us * known_us, greatest(span, 1))) AS measured_us
        FROM
        (
            SELECT
                tenant_id, plan,
                sumIf(toInt128(device_us), kind = 'time') AS time_us,
                sumIf(toInt128(span_us), kind = 'energy' AND isNotNull(energy_uj)) AS known_us,
                sumIf(toInt128(span_us), kind = 'energy') AS span
            FROM v_usage_lines
            WHERE state = 'held' AND NOT startsWith(tenant_id, '__')
            GROUP BY tenant_id, plan, site, gpu_model, sku, allocation_id, device, gpu_instance,
                intDiv(toUnixTimestamp64Micro(start_at), 900000000)
        )
        WHERE span > 0
        GROUP BY tenant_id, plan
    ),
    shared AS
    (
        SELECT
            use.tenant_id AS tenant_id, use.plan AS plan, held, billable, marginal_cost, own_cost, bill, unpriced, currencies,
            ifNull(pool.idle_unpriced, 0) AS idle_unpriced,
            toDecimal256(ifNull(pool.idle_cost, toDecimal128(0, 12)), 12) AS idle,
            if(held > 0, idle * held / pool_held, toDecimal256(0, 12)) AS weighted,
            arrayFirst(pair -> pair.1 = use.tenant_id, tenants).2 AS tenant_held,
            if(held > 0, idle * held / (tenant_held * pool_tenants), toDecimal256(0, 12)) AS even
        FROM use
        LEFT JOIN pool ON pool.site = use.site AND pool.gpu_model = use.gpu_model
        LEFT JOIN holders ON holders.site = use.site AND holders.gpu_model = use.gpu_model
    ),
    summed AS
    (
        SELECT
            tenant_id, plan,
            sum(shared.held) AS held_us, sum(shared.billable) AS billed_us, sum(shared.marginal_cost) AS marginal_floor,
            sum(shared.own_cost) AS own, toDecimal128(sum(shared.weighted), 12) AS idle_share,
            toDecimal128(sum(shared.even), 12) AS idle_share_even,
            sum(shared.bill) AS billed, sum(shared.unpriced + shared.idle_unpriced) AS unpriced_rows,
            arraySort(arrayDistinct(arrayFlatten(groupArray(shared.currencies)))) AS currency_list
        FROM shared
        GROUP BY tenant_id, plan
    )
SELECT
    tenant_id,
    plan,
    held_us,
    billed_us,
    ifNull(measured.measured_us, 0) AS measured_us,
    marginal_floor,
    own AS own_cost,
    idle_share,
    own + idle_share AS full_floor,
    billed,
    billed - full_floor AS margin,
    multiIf(
        unpriced_rows != 0 OR length(currency_list) > 1 OR measured_us * 1000000 < held_us * 900000, 'insufficient data',
        billed < marginal_floor, 'loses cash',
        billed < own, 'covers cash, not capital',
        billed < own + greatest(idle_share, idle_share_even), 'depends on the idle policy',
        'healthy'
    ) AS verdict,
    verdict != 'insufficient data' AND billed < full_floor AS below_cost,
    if(billed_us > 0 AND verdict != 'insufficient data',
        toDecimal128(toDecimal256(full_floor, 12) * 3600000000 / billed_us, 12), NULL) AS break_even_per_gpu_hour,
    if(billed_us > 0, toDecimal128(toDecimal256(billed, 12) * 3600000000 / billed_us, 12), NULL) AS effective_rate_per_gpu_hour,
    unpriced_rows,
    plan NOT IN ('internal', 'trial') AS may_be_repriced,
    arrayStringConcat(currency_list, ',') AS currency
FROM summed
LEFT JOIN measured ON measured.tenant_id = summed.tenant_id AND measured.plan = summed.plan
ORDER BY below_cost DESC, margin, tenant_id, plan
