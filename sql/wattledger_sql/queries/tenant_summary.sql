-- What did each tenant hold, use, cost and get billed? Customers and reserved names, by tenant and plan; amounts without
-- idle shares, in the currency. Totals are incomplete by the rows counted in unpriced_rows, unbilled_rows, unmeasured_rows.
SELECT
    tenant_id,
    plan,
    any(is_customer) AS is_customer,
    sum(margin.held_us) AS held_us,
    sum(margin.reserved_unused_us) AS reserved_unused_us,
    sum(margin.stranded_us) AS stranded_us,
    sum(margin.billed_us) AS billed_us,
    sum(margin.energy_uj) AS energy_uj,
    sum(margin.cost_energy) AS cost_energy,
    sum(margin.cost_compute) AS cost_compute,
    sum(margin.cost_pools) AS cost_pools,
    sum(margin.cost_marginal) AS cost_marginal,
    sum(margin.cost_total) AS cost_total,
    sum(margin.billed) AS billed,
    sum(margin.margin) AS margin,
    sum(margin.unpriced_rows) AS unpriced_rows,
    sum(margin.unbilled_rows) AS unbilled_rows,
    sum(margin.unmeasured_rows) AS unmeasured_rows,
    arrayStringConcat(arraySort(groupUniqArrayIf(margin.currency, margin.currency != '')), ',') AS currency
FROM v_tenant_margin_hour AS margin
GROUP BY tenant_id, plan
ORDER BY tenant_id, plan
