-- Lines are priced: for every time line exactly one compute row stands, for every energy line one energy row, with its
-- quantity; and no cost row is about a line that is not there.
-- Lines with a row inserted after {through_us:Int64} (µs UTC) are left out: their other rows may be under way.
SELECT
    concat(if(is_line, 'line ', 'missing line '), line_id, ': ', toString(stands), ' rows stand for ', toString(wanted),
        ', quantity ', toString(priced_quantity), ' of ', toString(line_quantity)) AS what,
    greatest(toInt256(1), toInt256(abs(priced_quantity - line_quantity))) AS residual
FROM
(
    SELECT
        line_id, max(line) AS is_line, sum(want) AS wanted, sum(got) AS stands,
        sum(want_quantity) AS line_quantity, sum(got_quantity) AS priced_quantity, max(inserted_at) AS last_at
    FROM
    (
        SELECT line_id, true AS line, toInt64(sign) AS want, toInt64(0) AS got,
            toInt128(if(kind = 'time', device_us, ifNull(energy_uj, 0))) AS want_quantity, toInt128(0) AS got_quantity, inserted_at
        FROM v_usage_lines
        UNION ALL
        SELECT line_id, false AS line, toInt64(0) AS want, toInt64(if(component IN ('compute', 'energy'), sign, 0)) AS got,
            toInt128(0) AS want_quantity,
            toInt128(if(component IN ('compute', 'energy'), ifNull(quantity, 0), 0)) AS got_quantity, inserted_at
        FROM v_cost_rows
    )
    GROUP BY line_id
)
WHERE (NOT is_line OR wanted != stands OR line_quantity != priced_quantity)
    AND toUnixTimestamp64Micro(last_at) <= {through_us:Int64}
