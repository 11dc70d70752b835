-- How old is each aggregate? Rows, and the age of the hour or day that has waited longest and of the newest, in seconds.
SELECT
    aggregate,
    sum(row_count) AS row_count,
    max(age_s) AS oldest_age_s,
    min(age_s) AS newest_age_s
FROM
(
    SELECT 'tenant_margin_hour' AS aggregate, count() AS row_count, dateDiff('second', max(refreshed_at), now64(6)) AS age_s
    FROM tenant_margin_hour GROUP BY hour_at
    UNION ALL
    SELECT 'tenant_margin_day', count(), dateDiff('second', max(refreshed_at), now64(6)) FROM tenant_margin_day GROUP BY day_on
    UNION ALL
    SELECT 'idle_burn_hour', count(), dateDiff('second', max(refreshed_at), now64(6)) FROM idle_burn_hour GROUP BY hour_at
    UNION ALL
    SELECT 'idle_burn_day', count(), dateDiff('second', max(refreshed_at), now64(6)) FROM idle_burn_day GROUP BY day_on
    UNION ALL
    SELECT 'job_cost_hour', count(), dateDiff('second', max(refreshed_at), now64(6)) FROM job_cost_hour GROUP BY hour_at
    UNION ALL
    SELECT 'model_tag_cost_hour', count(), dateDiff('second', max(refreshed_at), now64(6)) FROM model_tag_cost_hour GROUP BY hour_at
    UNION ALL
    SELECT 'device_energy_hour', count(), dateDiff('second', max(refreshed_at), now64(6)) FROM device_energy_hour GROUP BY hour_at
    UNION ALL
    SELECT 'capacity_hour', count(), dateDiff('second', max(refreshed_at), now64(6)) FROM capacity_hour GROUP BY hour_at
    UNION ALL
    SELECT 'discrepancy_count_hour', count(), dateDiff('second', max(refreshed_at), now64(6))
    FROM discrepancy_count_hour GROUP BY hour_at
)
GROUP BY aggregate
ORDER BY aggregate
