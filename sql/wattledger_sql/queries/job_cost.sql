-- What did each job cost? One row a job, dearest first: time held, energy, cost by component, what was billed, margin.
SELECT
    tenant_id,
    cluster,
    job,
    uniqExact(attempt) AS attempts,
    arrayStringConcat(arraySort(groupUniqArrayIf(model_tag, model_tag != '')), ',') AS model_tags,
    min(hour_at) AS first_hour_at,
    max(hour_at) AS last_hour_at,
    sum(part.held_us) AS held_us,
    sum(part.stranded_us) AS stranded_us,
    sum(part.energy_uj) AS energy_uj,
    sum(part.cost_energy) AS cost_energy,
    sum(part.cost_compute) AS cost_compute,
    sum(part.cost_pools) AS cost_pools,
    sum(part.cost_total) AS cost_total,
    sum(part.billed) AS billed,
    sum(part.margin) AS margin,
    sum(part.unpriced_rows) AS unpriced_rows,
    sum(part.unbilled_rows) AS unbilled_rows,
    sum(part.unmeasured_rows) AS unmeasured_rows,
    arrayStringConcat(arraySort(groupUniqArrayIf(part.currency, part.currency != '')), ',') AS currency
FROM v_job_cost_hour AS part
GROUP BY tenant_id, cluster, job
ORDER BY cost_total DESC, tenant_id, cluster, job
