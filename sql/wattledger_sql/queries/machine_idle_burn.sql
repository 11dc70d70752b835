-- Which machine leaks most? One row a node, dearest idle first: time free of the time in service, its cost, the energy
-- drawn while nobody held it, and how busy the held time was. Idle and unattributed energy cost is apart from the rest.
SELECT
    node,
    any(site_name) AS site,
    arrayStringConcat(arraySort(groupUniqArrayIf(model_name, model_name != '')), ',') AS gpu_models,
    sum(service) AS in_service_us,
    sum(free) AS free_us,
    if(in_service_us > 0, toDecimal64(toDecimal256(free_us, 6) / in_service_us, 6), NULL) AS idle_ratio,
    sum(idle_cost) AS idle_cost,
    sum(idle_energy) AS idle_energy_uj,
    sum(other_cost) AS other_unheld_cost,
    sum(held_known) AS held_measured_us,
    sum(held_busy) AS held_busy_us,
    sum(unpriced) AS unpriced_rows,
    sum(unmeasured) AS unmeasured_rows,
    arrayStringConcat(arraySort(groupUniqArrayIf(currency_code, currency_code != '')), ',') AS currency
FROM
(
    SELECT node, site AS site_name, gpu_model AS model_name,
        device_us AS service, if(state = 'free', device_us, toInt128(0)) AS free,
        toDecimal128(0, 12) AS idle_cost, toInt128(0) AS idle_energy, toDecimal128(0, 12) AS other_cost,
        toInt128(0) AS held_known, toInt128(0) AS held_busy, toInt64(0) AS unpriced, toInt64(0) AS unmeasured, '' AS currency_code
    FROM v_capacity_hour
    UNION ALL
    SELECT node, site, gpu_model, toInt128(0), toInt128(0),
        if(tenant_id = '__idle__', cost_total, toDecimal128(0, 12)), if(tenant_id = '__idle__', energy_uj, toInt128(0)),
        if(tenant_id = '__idle__', toDecimal128(0, 12), cost_total),
        toInt128(0), toInt128(0), unpriced_rows, unmeasured_rows, toString(currency)
    FROM v_idle_burn_hour
    UNION ALL
    SELECT node, site, gpu_model, toInt128(0), toInt128(0), toDecimal128(0, 12), toInt128(0), toDecimal128(0, 12),
        measured_us, busy_us, toInt64(0), toInt64(0), ''
    FROM v_device_energy_hour
    WHERE state = 'held'
)
GROUP BY node
ORDER BY idle_cost DESC, node
