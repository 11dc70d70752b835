-- What could not be priced or measured, and why? One row a component, state, model, site and reason; rows that stand.
SELECT
    status,
    component,
    reason,
    site,
    gpu_model,
    state,
    sum(toInt64(sign)) AS standing_rows,
    sum(toInt128(ifNull(quantity, 0))) AS total_quantity,
    any(unit) AS quantity_unit,
    arrayStringConcat(arraySort(groupUniqArray(toString(tenant_id))), ',') AS tenants
FROM v_cost_rows
WHERE status != 'priced'
GROUP BY status, component, reason, site, gpu_model, state
HAVING standing_rows != 0
ORDER BY standing_rows DESC, status, component, reason, site, gpu_model, state
