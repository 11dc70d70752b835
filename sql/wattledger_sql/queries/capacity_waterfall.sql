-- Where did every installed hour go? One row a step, in order. installed = unavailable + reserved_unused + stranded + free +
-- held, exactly; billed is what the rate card bills, beside them. cost_compute is the compute cost of that time; who pays
-- reserved, stranded and zombie time is in tenant_summary.
SELECT
    step,
    sum(time_us) AS device_us,
    sum(amount) AS cost_compute,
    sum(unpriced) AS unpriced_rows
FROM
(
    SELECT 'installed' AS step, device_us AS time_us, toDecimal128(0, 12) AS amount, toInt64(0) AS unpriced
    FROM v_capacity_hour
    UNION ALL
    SELECT toString(state), device_us, toDecimal128(0, 12), toInt64(0)
    FROM v_capacity_hour
    UNION ALL
    SELECT pair.1, toInt128(0), pair.2, toInt64(0)
    FROM v_idle_burn_hour
    ARRAY JOIN [('installed', cost_compute), (toString(state), cost_compute)] AS pair
    WHERE state NOT IN ('idle', 'unattributed')
    UNION ALL
    SELECT pair.1, toInt128(0), pair.2, toInt64(0)
    FROM v_model_tag_cost_hour
    ARRAY JOIN [('installed', cost_compute), ('held', cost_compute)] AS pair
    UNION ALL
    SELECT 'billed', billed_us, toDecimal128(0, 12), unbilled_rows
    FROM v_tenant_margin_hour
    UNION ALL
    SELECT 'installed', toInt128(0), toDecimal128(0, 12), unpriced_rows
    FROM v_tenant_margin_hour
    UNION ALL
    SELECT arrayJoin(['installed', 'unavailable', 'reserved_unused', 'stranded', 'free', 'held', 'billed']),
        toInt128(0), toDecimal128(0, 12), toInt64(0)
)
GROUP BY step
ORDER BY indexOf(['installed', 'unavailable', 'reserved_unused', 'stranded', 'free', 'held', 'billed'], step), step
