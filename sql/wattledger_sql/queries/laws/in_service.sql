-- In service: the first total of each device and quarter-hour is inventory ∩ service as known {lateness_us:Int64} after
-- its end, and none is missing. (What came later is in corrections, which the law on device-time covers.)
-- Checked up to the last quarter-hour metered anywhere; of each node, while rows inserted after {through_us:Int64} wait.
WITH
    (SELECT toUnixTimestamp64Micro(min(marked_at)) FROM v_marks) AS settled_us,
    metered AS
    (
        SELECT node, max(toUnixTimestamp64Micro(group_end_at)) AS metered_us
        FROM v_device_totals WHERE kind = 'time' AND entry = 'original' GROUP BY node
    ),
    (SELECT max(metered_us) FROM metered) AS fleet_us,
    quarters AS
    (
        SELECT node, arrayJoin(range(first_us, last_us, 900000000)) AS quarter_us
        FROM
        (
            SELECT
                revision.node AS node,
                intDiv(min(toUnixTimestamp64Micro(start_at)), 900000000) * 900000000 AS first_us,
                greatest(first_us, least(
                    settled_us - {lateness_us:Int64},
                    if({through_us:Int64} < 4611686018427387904, any(metered.metered_us), fleet_us)
                ) - 899999999) AS last_us
            FROM v_node_revisions AS revision
            LEFT JOIN metered ON metered.node = revision.node
            WHERE kind = 'inventory'
            GROUP BY revision.node
        )
    ),
    known AS
    (
        SELECT
            quarters.node AS node, quarter_us, fact_id,
            argMax(
                (kind, toUnixTimestamp64Micro(start_at),
                    ifNull(toUnixTimestamp64Micro(end_at), 4611686018427387904), void, devices.device),
                (origin_offset, origin_seq)
            ) AS fact
        FROM quarters
        INNER JOIN v_node_revisions AS revision ON revision.node = quarters.node
        WHERE kind IN ('inventory', 'service')
            AND toUnixTimestamp64Micro(known_at) < quarter_us + 900000000 + {lateness_us:Int64}
        GROUP BY quarters.node, quarter_us, fact_id
    ),
    inventory AS
    (
        SELECT node, quarter_us, arrayJoin(fact.5) AS device, fact.2 AS a_us, fact.3 AS b_us
        FROM known WHERE fact.1 = 'inventory' AND NOT fact.4
    ),
    service AS
    (
        SELECT node, quarter_us, fact.2 AS a_us, fact.3 AS b_us
        FROM known WHERE fact.1 = 'service' AND NOT fact.4
    )
SELECT
    concat(node, '/', device, ' quarter-hour from ', toString(fromUnixTimestamp64Micro(quarter_us, 'UTC')), ': total ',
        toString(totals_us), ' us, in service ', toString(service_us), ' us') AS what,
    toInt256(totals_us) - toInt256(service_us) AS residual
FROM
(
    SELECT node, device, quarter_us, sum(total_us) AS totals_us, sum(expected_us) AS service_us
    FROM
    (
        SELECT
            inventory.node AS node, inventory.device AS device, inventory.quarter_us AS quarter_us,
            toInt128(0) AS total_us,
            toInt128(greatest(0,
                least(inventory.b_us, service.b_us, inventory.quarter_us + 900000000)
                - greatest(inventory.a_us, service.a_us, inventory.quarter_us)
            )) AS expected_us
        FROM inventory
        INNER JOIN service ON service.node = inventory.node AND service.quarter_us = inventory.quarter_us
        UNION ALL
        SELECT
            node, device, toUnixTimestamp64Micro(group_start_at) AS quarter_us,
            toInt128(in_service_us) AS total_us, toInt128(0) AS expected_us
        FROM v_device_totals
        WHERE kind = 'time' AND entry = 'original'
            AND toUnixTimestamp64Micro(group_end_at) + {lateness_us:Int64} <= settled_us
    )
    GROUP BY node, device, quarter_us
)
WHERE totals_us != service_us
