-- Energy: per device and batch the energy lines sum to the batch's own energy, in µJ, exactly.
-- Groups with a row inserted after {through_us:Int64} (µs UTC) are left out: their other rows may be under way.
SELECT
    concat(node, '/', device, ' batch from ', toString(group_start_at), ': lines ', toString(lines_uj),
        ' uJ, batch ', toString(batch_uj), ' uJ') AS what,
    toInt256(lines_uj) - toInt256(batch_uj) AS residual
FROM
(
    SELECT node, device, group_start_at, sum(line_uj) AS lines_uj, sum(total_uj) AS batch_uj, max(inserted_at) AS last_at
    FROM
    (
        SELECT node, device, group_start_at, toInt128(ifNull(energy_uj, 0)) AS line_uj, toInt128(0) AS total_uj, inserted_at
        FROM v_usage_lines WHERE kind = 'energy'
        UNION ALL
        SELECT node, device, group_start_at, toInt128(0) AS line_uj, toInt128(energy_uj) AS total_uj, inserted_at
        FROM v_device_totals WHERE kind = 'energy'
    )
    GROUP BY node, device, group_start_at
)
WHERE lines_uj != batch_uj AND toUnixTimestamp64Micro(last_at) <= {through_us:Int64}
