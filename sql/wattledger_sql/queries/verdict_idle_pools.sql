-- What did the free time of each pool (site × model) cost? Energy drawn while nobody held is in it; unavailable, reserved
-- and stranded time is not.
SELECT
    site, gpu_model,
    sumIf(b.device_us, state = 'free') AS idle_us,
    toString(sum(b.cost_total)) AS cost,
    sum(b.unpriced_rows) AS unpriced
FROM v_idle_burn_hour AS b
WHERE tenant_id = '__idle__'
GROUP BY site, gpu_model
ORDER BY site, gpu_model
