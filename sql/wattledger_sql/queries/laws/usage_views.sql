-- Usage: the hours of device_energy and capacity sum to the usage lines, in µJ and µs, exactly. Hours with rows inserted
-- since the aggregate was refreshed are left out: they are due, not wrong.
WITH compared AS
(
    SELECT 'device_energy_hour' AS view, toStartOfHour(start_at) AS hour_at, toInt128(ifNull(energy_uj, 0)) AS amount,
        toInt128(0) AS shown, inserted_at AS last_at, (SELECT max(inserted_through) FROM device_energy_hour) AS through_at
    FROM v_usage_lines WHERE kind = 'energy'
    UNION ALL
    SELECT 'device_energy_hour', hour_at, toInt128(0), energy_uj, toDateTime64(0, 6, 'UTC'),
        (SELECT max(inserted_through) FROM device_energy_hour)
    FROM v_device_energy_hour
    UNION ALL
    SELECT 'capacity_hour', toStartOfHour(start_at), toInt128(device_us), toInt128(0), inserted_at,
        (SELECT max(inserted_through) FROM capacity_hour)
    FROM v_usage_lines WHERE kind = 'time'
    UNION ALL
    SELECT 'capacity_hour', hour_at, toInt128(0), device_us, toDateTime64(0, 6, 'UTC'),
        (SELECT max(inserted_through) FROM capacity_hour)
    FROM v_capacity_hour
)
SELECT
    concat(view, ' from ', toString(hour_at), ': shown ', toString(sum_shown), ', lines ', toString(sum_lines)) AS what,
    toInt256(sum_shown) - toInt256(sum_lines) AS residual
FROM
(
    SELECT view, hour_at, sum(amount) AS sum_lines, sum(shown) AS sum_shown, max(last_at) AS newest_at, any(through_at) AS seen_at
    FROM compared
    GROUP BY view, hour_at
)
WHERE sum_lines != sum_shown AND newest_at <= seen_at
