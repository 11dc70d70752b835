-- Device-time: per device and quarter-hour the time lines sum to the time in service, in µs, exactly.
-- Groups with a row inserted after {through_us:Int64} (µs UTC) are left out: their other rows may be under way.
SELECT
    concat(node, '/', device, ' quarter-hour from ', toString(group_start_at), ': lines ', toString(lines_us),
        ' us, in service ', toString(service_us), ' us') AS what,
    toInt256(lines_us) - toInt256(service_us) AS residual
FROM
(
    SELECT node, device, group_start_at, sum(line_us) AS lines_us, sum(total_us) AS service_us, max(inserted_at) AS last_at
    FROM
    (
        SELECT node, device, group_start_at, toInt128(device_us) AS line_us, toInt128(0) AS total_us, inserted_at
        FROM v_usage_lines WHERE kind = 'time'
        UNION ALL
        SELECT node, device, group_start_at, toInt128(0) AS line_us, toInt128(in_service_us) AS total_us, inserted_at
        FROM v_device_totals WHERE kind = 'time'
    )
    GROUP BY node, device, group_start_at
)
WHERE lines_us != service_us AND toUnixTimestamp64Micro(last_at) <= {through_us:Int64}
