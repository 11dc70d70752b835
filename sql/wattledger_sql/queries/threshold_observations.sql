-- What do the threshold rules look at? One value for each kind, scope and closed hour, by the hours up to {closed_us:Int64}
-- (µs, exclusive). Margin ratio of a tenant, idle cost of a node in the currency, share of a node's time without energy,
-- energy that nobody held in J. A value that can't be known is NULL.
SELECT kind, scope, toUnixTimestamp(hour_at) * 1000000 + 3600000000 AS at_us, value
FROM
(
    SELECT 'tenant_below_cost' AS kind, toString(tenant_id) AS scope, hour_at,
        if(sum(m.unpriced_rows + m.unbilled_rows) = 0 AND sum(m.billed) != 0,
            toString(toDecimal128(toDecimal256(sum(m.margin), 12) / sum(m.billed), 6)), NULL) AS value
    FROM v_tenant_margin_hour AS m
    WHERE is_customer AND plan NOT IN ('internal', 'trial')
    GROUP BY tenant_id, hour_at
    UNION ALL
    SELECT 'idle_burn', toString(node), hour_at, if(sum(b.unpriced_rows) = 0, toString(sum(b.cost_total)), NULL)
    FROM v_idle_burn_hour AS b
    WHERE tenant_id = '__idle__'
    GROUP BY node, hour_at
    UNION ALL
    SELECT 'telemetry_gap', toString(node), toStartOfHour(group_start_at) AS hour_at,
        toString(toDecimal128(1 - toDecimal256(
            sumIf(toInt128(t.measured_us), kind = 'energy'), 6)
            / greatest(sumIf(toInt128(t.in_service_us), kind = 'time'), 1), 6))
    FROM v_device_totals AS t
    GROUP BY node, hour_at
    HAVING sumIf(toInt128(t.in_service_us), kind = 'time') > 0
    UNION ALL
    SELECT 'usage_without_holder', toString(node), hour_at, toString(intDiv(sum(e.energy_uj), 1000000))
    FROM v_device_energy_hour AS e
    WHERE state = 'unattributed'
    GROUP BY node, hour_at
)
WHERE at_us <= {closed_us:Int64}
ORDER BY at_us, kind, scope
