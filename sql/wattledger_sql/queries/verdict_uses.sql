-- What did each tenant × SKU × plan use of each pool (site × model), and what was it billed? Customers only; own cost is
-- everything but idle shares. measured_us is held device-time whose energy is known, by the share of each hold's energy
-- lines that are.
WITH measured AS
(
    SELECT tenant_id, sku, plan, site, gpu_model, sum(intDiv(time_us * known_us, greatest(span, 1))) AS measured_us
    FROM
    (
        SELECT
            tenant_id, sku, plan, site, gpu_model,
            sumIf(toInt128(device_us), kind = 'time') AS time_us,
            sumIf(toInt128(span_us), kind = 'energy' AND isNotNull(energy_uj)) AS known_us,
            sumIf(toInt128(span_us), kind = 'energy') AS span
        FROM v_usage_lines
        WHERE state = 'held' AND NOT startsWith(tenant_id, '__')
        GROUP BY tenant_id, plan, site, gpu_model, sku, allocation_id, device, gpu_instance,
            intDiv(toUnixTimestamp64Micro(start_at), 900000000)
    )
    WHERE span > 0
    GROUP BY tenant_id, sku, plan, site, gpu_model
)
SELECT
    use.tenant_id, use.sku, use.plan, use.site, use.gpu_model, use.held, use.billable,
    ifNull(measured.measured_us, 0) AS measured_us,
    toString(use.marginal_cost), toString(use.own_cost), toString(use.bill), use.unpriced
FROM
(
    SELECT
        tenant_id, sku, plan, site, gpu_model,
        sum(m.held_us) AS held, sum(m.billed_us) AS billable, sum(m.cost_marginal) AS marginal_cost,
        sum(m.cost_total) AS own_cost, sum(m.billed) AS bill, sum(m.unpriced_rows + m.unbilled_rows) AS unpriced
    FROM v_tenant_margin_hour AS m
    WHERE is_customer
    GROUP BY tenant_id, sku, plan, site, gpu_model
) AS use
LEFT JOIN measured ON measured.tenant_id = use.tenant_id AND measured.sku = use.sku AND measured.plan = use.plan
    AND measured.site = use.site AND measured.gpu_model = use.gpu_model
ORDER BY use.tenant_id, use.sku, use.plan, use.site, use.gpu_model
