-- Money: every aggregate by hour sums to the cost rows that it is about, and every aggregate by day to its hours, by
-- component, exactly. Hours with rows inserted since the aggregate was refreshed are left out: they are due, not wrong.
WITH
    facts AS
    (
        SELECT
            toStartOfHour(start_at) AS hour_at,
            state, job != '' AS has_job,
            multiIf(startsWith(component, 'pool:'), 'pool', toString(component)) AS part,
            sum(ifNull(cost, toDecimal128(0, 12))) AS amount,
            max(inserted_at) AS last_at
        FROM v_cost_rows
        GROUP BY hour_at, state, has_job, part
    ),
    compared AS
    (
        SELECT 'tenant_margin_hour' AS view, hour_at, part, amount, toDecimal128(0, 12) AS shown, last_at,
            (SELECT max(inserted_through) FROM tenant_margin_hour) AS through_at
        FROM facts
        UNION ALL
        SELECT 'tenant_margin_hour', hour_at, pair.1, toDecimal128(0, 12), pair.2, toDateTime64(0, 6, 'UTC'),
            (SELECT max(inserted_through) FROM tenant_margin_hour)
        FROM v_tenant_margin_hour
        ARRAY JOIN [('energy', cost_energy), ('compute', cost_compute), ('pool', cost_pools), ('billed', billed)] AS pair
        UNION ALL
        SELECT 'job_cost_hour', hour_at, part, amount, toDecimal128(0, 12), last_at,
            (SELECT max(inserted_through) FROM job_cost_hour)
        FROM facts WHERE has_job
        UNION ALL
        SELECT 'job_cost_hour', hour_at, pair.1, toDecimal128(0, 12), pair.2, toDateTime64(0, 6, 'UTC'),
            (SELECT max(inserted_through) FROM job_cost_hour)
        FROM v_job_cost_hour
        ARRAY JOIN [('energy', cost_energy), ('compute', cost_compute), ('pool', cost_pools), ('billed', billed)] AS pair
        UNION ALL
        SELECT 'model_tag_cost_hour', hour_at, part, amount, toDecimal128(0, 12), last_at,
            (SELECT max(inserted_through) FROM model_tag_cost_hour)
        FROM facts WHERE state = 'held'
        UNION ALL
        SELECT 'model_tag_cost_hour', hour_at, pair.1, toDecimal128(0, 12), pair.2, toDateTime64(0, 6, 'UTC'),
            (SELECT max(inserted_through) FROM model_tag_cost_hour)
        FROM v_model_tag_cost_hour
        ARRAY JOIN [('energy', cost_energy), ('compute', cost_compute), ('pool', cost_pools), ('billed', billed)] AS pair
        UNION ALL
        SELECT 'idle_burn_hour', hour_at, part, amount, toDecimal128(0, 12), last_at,
            (SELECT max(inserted_through) FROM idle_burn_hour)
        FROM facts WHERE state != 'held' AND part != 'billed'
        UNION ALL
        SELECT 'idle_burn_hour', hour_at, pair.1, toDecimal128(0, 12), pair.2, toDateTime64(0, 6, 'UTC'),
            (SELECT max(inserted_through) FROM idle_burn_hour)
        FROM v_idle_burn_hour
        ARRAY JOIN [('energy', cost_energy), ('compute', cost_compute), ('pool', cost_pools)] AS pair
        UNION ALL
        SELECT 'tenant_margin_day', toDateTime(toDate(hour_at), 'UTC'), 'cost and billed', cost_total + billed,
            toDecimal128(0, 12), refreshed_at, (SELECT max(hours_through) FROM tenant_margin_day)
        FROM v_tenant_margin_hour
        UNION ALL
        SELECT 'tenant_margin_day', toDateTime(day_on, 'UTC'), 'cost and billed', toDecimal128(0, 12),
            cost_total + billed, toDateTime64(0, 6, 'UTC'), (SELECT max(hours_through) FROM tenant_margin_day)
        FROM v_tenant_margin_day
        UNION ALL
        SELECT 'idle_burn_day', toDateTime(toDate(hour_at), 'UTC'), 'cost', cost_total,
            toDecimal128(0, 12), refreshed_at, (SELECT max(hours_through) FROM idle_burn_day)
        FROM v_idle_burn_hour
        UNION ALL
        SELECT 'idle_burn_day', toDateTime(day_on, 'UTC'), 'cost', toDecimal128(0, 12),
            cost_total, toDateTime64(0, 6, 'UTC'), (SELECT max(hours_through) FROM idle_burn_day)
        FROM v_idle_burn_day
    )
SELECT
    concat(view, ' from ', toString(hour_at), ', ', part, ': shown ', toString(sum_shown), ', rows ', toString(sum_rows)) AS what,
    toDecimal256(sum_shown, 12) - toDecimal256(sum_rows, 12) AS residual
FROM
(
    SELECT view, hour_at, part, sum(amount) AS sum_rows, sum(shown) AS sum_shown,
        max(last_at) OVER (PARTITION BY view, hour_at) AS newest_at, any(through_at) AS seen_at
    FROM
    (
        SELECT view, hour_at, part, amount, shown, through_at, max(last_at) OVER (PARTITION BY view, hour_at) AS last_at
        FROM compared
    )
    GROUP BY view, hour_at, part, last_at
)
WHERE sum_rows != sum_shown AND newest_at <= seen_at
