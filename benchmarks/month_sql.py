"""The month as INSERT SELECT: texts with places for window and fleet. Everything is drawn from hashes, so equal sizes
give equal rows; amounts are exact, as the laws are checked on them."""

from string import Template

# Holds of four hours (14,400,000,000 µs) change 407.25 s after the grid, so that lines and batches are cut.
HOLDER = """
    intDiv(device_no, 8) AS node_no,
    concat('node-', leftPad(toString(node_no), 4, '0')) AS node_name,
    concat('GPU-', lower(hex(sipHash128('device', device_no)))) AS device_name,
    ['fra1', 'ams1', 'hel1'][node_no % 3 + 1] AS site_name,
    if(node_no % 5 < 3, 'H100', 'A100') AS model_name,
    intDiv(device_no, 4) AS half_no,
    sipHash64('slot', half_no, slot) AS slot_hash,
    slot_hash % 100 < 70 AS is_held,
    slot_hash % 100 >= 96 AS is_down,
    intDiv(slot_hash, 100) % $tenants AS tenant_no,
    if(is_held, concat('tenant-', leftPad(toString(tenant_no), 3, '0')), '') AS holder,
    slot - intDiv($start_us, 14400000000) AS slot_no,
    if(is_held, concat('job-', toString(half_no), '-', toString(slot_no)), '') AS job_name,
    if(is_held, lower(hex(sipHash128('allocation', device_no, slot))), '') AS allocation,
    if(is_held, concat('project-', toString(tenant_no % 7)), '') AS project_name,
    if(is_held, concat('user-', toString(slot_hash % 5)), '') AS user_of_job,
    if(is_held, ['llama', 'mixtral', 'whisper', ''][slot_hash % 4 + 1], '') AS tag,
    if(is_held, multiIf(tenant_no % 10 < 6, 'on_demand', tenant_no % 10 < 9, 'reserved', 'internal'), '') AS plan_name,
    if(is_held, lower(model_name), '') AS sku_name
"""

LINES = Template("""
INSERT INTO usage_lines (
    line_id, kind, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state, reason, tenant_id,
    project, user_name, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at, span_us,
    device_us, energy_uj, idle_energy_uj, busy_us, method, marks, sign, entry, of_line_id, cause_id, source_partition,
    source_offset, inserted_at)
SELECT
    lower(hex(sipHash128('line', '$kind', device_no, group_us, slot))), '$kind',
    fromUnixTimestamp64Micro(group_us, 'UTC'), fromUnixTimestamp64Micro(group_us + $period_us, 'UTC'),
    node_name, device_name, '', site_name, model_name,
    if(is_held, 'held', if('$kind' = 'energy', 'idle', if(is_down, 'unavailable', 'free'))),
    if('$kind' = 'energy' AND NOT known, 'no_reading', if(is_down AND '$kind' = 'time', 'maintenance', '')),
    if(is_held, holder, if(is_down AND '$kind' = 'time', '__unavailable__', '__idle__')),
    project_name, user_of_job, tag, if(is_held, 'c1', ''), job_name, 0, allocation, plan_name, sku_name,
    fromUnixTimestamp64Micro(from_us, 'UTC'), fromUnixTimestamp64Micro(to_us, 'UTC'),
    to_us - from_us AS span, if('$kind' = 'time', span, 0),
    if('$kind' = 'energy' AND known, watts * span, NULL) AS uj,
    if(is_held, intDiv(ifNull(uj, 0), 20), ifNull(uj, 0)),
    if('$kind' = 'energy' AND known AND is_held, intDiv(span * (60 + group_us % 40), 100), 0),
    if('$kind' = 'time', 'allocation', if(known, 'counter', 'none')), '', 1, 'original', '', '',
    node_no % 12, intDiv(group_us - $start_us, $period_us) * 16 + intDiv(node_no, 12),
    $taken_in
FROM
(
    SELECT *, $holder,
        greatest(group_us, slot * 14400000000 + 407250000) AS from_us,
        least(group_us + $period_us, (slot + 1) * 14400000000 + 407250000) AS to_us,
        if(is_held, 180, 55) + sipHash64('power', device_no, group_us, slot) % if(is_held, 480, 20) AS watts,
        sipHash64('gap', device_no, group_us) % 1000 != 0 AS known
    FROM
    (
        SELECT
            toInt64(number % $gpus) AS device_no,
            toInt64($from_us + intDiv(number, $gpus) * $period_us) AS group_us,
            intDiv(group_us - 407250000, 14400000000) AS first_slot,
            intDiv(group_us + $period_us - 407250001, 14400000000) AS last_slot,
            arrayJoin(range(first_slot, last_slot + 1)) AS slot
        FROM numbers($gpus * intDiv($to_us - $from_us, $period_us))
    )
)
""")

CORRECTIONS = Template("""
INSERT INTO usage_lines (
    line_id, kind, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state, reason, tenant_id,
    project, user_name, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at, span_us,
    device_us, energy_uj, idle_energy_uj, busy_us, method, marks, sign, entry, of_line_id, cause_id, source_partition,
    source_offset, inserted_at)
SELECT
    lower(hex(sipHash128('corrected', of_line, step))), kind, group_start_at, group_end_at, node, device, gpu_instance,
    site, gpu_model, if(step < 0, state, if(kind = 'time', 'free', 'idle')), reason,
    if(step < 0, tenant_id, '__idle__'), if(step < 0, project, ''), if(step < 0, user_name, ''),
    if(step < 0, model_tag, ''), if(step < 0, cluster, ''), if(step < 0, job, ''), 0,
    if(step < 0, allocation_id, ''), if(step < 0, plan, ''), if(step < 0, sku, ''),
    start_at, end_at, step * span_us, step * device_us, step * energy_uj, step * idle_energy_uj, step * busy_us,
    method, marks, step, if(step < 0, 'reversal', 'correction'), if(step < 0, of_line, ''),
    lower(hex(sipHash128('late', of_allocation))), source_partition, source_offset, $corrected_in
FROM
(
    SELECT *, line_id AS of_line, allocation_id AS of_allocation, arrayJoin([toInt8(-1), toInt8(1)]) AS step
    FROM usage_lines
    WHERE start_at >= fromUnixTimestamp64Micro($from_us, 'UTC') AND start_at < fromUnixTimestamp64Micro($to_us, 'UTC')
        AND state = 'held' AND entry = 'original' AND sipHash64('late', line_id) % 100 = 0
)
""")

TOTALS = Template("""
INSERT INTO device_totals (
    total_id, kind, group_start_at, group_end_at, node, device, in_service_us, energy_uj, measured_us, unknown_us,
    batch_partition, batch_offset, sign, entry, of_total_id, cause_id, source_partition, source_offset, inserted_at)
SELECT
    lower(hex(sipHash128('total', kind, device, group_start_at))), kind, group_start_at, any(group_end_at), any(node),
    device, sum(device_us), sum(ifNull(usage_lines.energy_uj, 0)), sumIf(span_us, isNotNull(usage_lines.energy_uj)),
    sumIf(span_us, kind = 'energy' AND isNull(usage_lines.energy_uj)), if(kind = 'energy', any(source_partition), -1),
    if(kind = 'energy', any(source_offset), -1), 1, 'original', '', '', any(source_partition), any(source_offset),
    any(inserted_at)
FROM usage_lines
WHERE entry = 'original'
    AND start_at >= fromUnixTimestamp64Micro($from_us, 'UTC') AND start_at < fromUnixTimestamp64Micro($to_us, 'UTC')
GROUP BY kind, device, group_start_at
""")

# Half-even in 256-bit integers: n/d is the exact cost in 1e-12 of the currency.
COSTS = Template("""
INSERT INTO cost_rows (
    row_id, line_id, component, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state,
    tenant_id, project, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at, quantity, unit,
    price_id, price_revision_id, rate, pue, marginal, cost, currency, status, reason, sign, entry, of_row_id, cause_id,
    source_partition, source_offset, inserted_at)
SELECT
    lower(hex(sipHash128('cost', line_id, part))), line_id, part, group_start_at, group_end_at, node, device,
    gpu_instance, site, gpu_model, state, tenant_id, project, model_tag, cluster, job, attempt, allocation_id, plan,
    sku, start_at, end_at, amount, if(part = 'energy', 'uj', 'us'), price,
    lower(hex(sipHash128('price', price))), toDecimal128(rate_milli, 12) / 1000,
    if(part = 'energy', toDecimal128('1.35', 12), NULL), part = 'energy',
    if(isNull(amount), NULL, sign * reinterpret(toInt128(half_up - (tied AND half_up % 2 = 1)), 'Decimal(38, 12)')),
    'EUR', if(isNull(amount), 'unmeasured', 'priced'), if(isNull(amount), 'unknown_energy', ''), sign, entry,
    if(sign < 0, lower(hex(sipHash128('cost', of_line_id, part))), ''), cause_id, source_partition, source_offset,
    inserted_at
FROM
(
    SELECT *,
        multiIf(
            kind = 'energy', ['energy'],
            state = 'held', ['compute', 'pool:fabric', 'billed'],
            ['compute', 'pool:fabric']) AS parts,
        arrayJoin(parts) AS part,
        if(kind = 'energy', energy_uj, device_us) AS amount,
        multiIf(
            part = 'energy', 310, part = 'pool:fabric', 131,
            part = 'compute', if(gpu_model = 'H100', 2137, 1311),
            gpu_model = 'H100', multiIf(plan = 'on_demand', 2900, plan = 'reserved', 2450, 2100),
            multiIf(plan = 'on_demand', 1790, plan = 'reserved', 1490, 1290)) AS rate_milli,
        concat(part, '-', if(part = 'energy', site, gpu_model), '-', plan) AS price,
        if(part = 'energy', toInt256(1350000000000), toInt256(1000000000000)) AS factor,
        toInt256(abs(ifNull(amount, 0))) * rate_milli * 1000000000 * factor AS n,
        toInt256(if(part = 'energy', 3600000000000, 3600000000)) * 1000000000000 AS d,
        intDiv(2 * n + d, 2 * d) AS half_up,
        (2 * n + d) % (2 * d) = 0 AS tied
    FROM usage_lines
    WHERE start_at >= fromUnixTimestamp64Micro($from_us, 'UTC') AND start_at < fromUnixTimestamp64Micro($to_us, 'UTC')
)
""")

ALLOCATIONS = Template("""
INSERT INTO allocation_revisions (
    revision_id, allocation_id, origin_partition, origin_offset, origin_seq, known_at, cluster, job, attempt, segment,
    node, device, gpu_instance, share_num, share_den, tenant_id, project, user_name, model_tag, plan, sku,
    requested_profile, delivered_profile, exclusive, cpus, memory_bytes, storage_bytes, start_at, end_at,
    stop_requested_at, outcome, marks, void, announced, source_partition, source_offset, inserted_at)
SELECT
    lower(hex(sipHash128('revision', device_no, slot))), allocation, half_no % 12, slot * 2000 + half_no, 0,
    fromUnixTimestamp64Micro(begin_us, 'UTC'), 'c1', job_name, 0, 0, node_name, device_name, '', 1, 1, holder,
    project_name, user_of_job, tag, plan_name, sku_name, 'full', 'full', false, NULL, NULL, NULL,
    fromUnixTimestamp64Micro(begin_us, 'UTC'),
    if(begin_us + 14400000000 <= $to_us, fromUnixTimestamp64Micro(begin_us + 14400000000, 'UTC'), NULL), NULL,
    if(begin_us + 14400000000 <= $to_us, 'COMPLETED', ''), [], false, false, node_no % 12, slot * 2000 + half_no,
    fromUnixTimestamp64Micro(begin_us + 1000000, 'UTC')
FROM
(
    SELECT *, $holder, slot * 14400000000 + 407250000 AS begin_us
    FROM
    (
        SELECT toInt64(number % $gpus) AS device_no,
            toInt64(intDiv($from_us - 407250000, 14400000000) + intDiv(number, $gpus)) AS slot
        FROM numbers($gpus * (intDiv($to_us - 407250000, 14400000000) - intDiv($from_us - 407250000, 14400000000) + 1))
    )
    WHERE is_held
)
""")

NODES = Template("""
INSERT INTO node_revisions (
    revision_id, fact_id, origin_partition, origin_offset, origin_seq, known_at, node, cluster, kind, start_at, end_at,
    site, devices, cpus, memory_bytes, state, reason, reservation_id, tenant_id, reserved_devices, marks, void,
    announced, inserted_at)
SELECT
    lower(hex(sipHash128('fact', fact, node_name))), lower(hex(sipHash128('fact', fact, node_name))), node_no % 12,
    node_no, fact = 'service', toDateTime64(0, 6, 'UTC'), node_name, 'c1', fact,
    fromUnixTimestamp64Micro($from_us, 'UTC'), NULL, if(fact = 'inventory', site_name, ''),
    if(fact = 'inventory', groupArray((
        device_name, toInt32(device_no % 8), model_name, toInt32(0), 'exclusive', CAST(NULL AS Nullable(Int64)))), []),
    NULL, NULL, '', '', '', '', [], [], false, false, fromUnixTimestamp64Micro($from_us + 1000000, 'UTC')
FROM (SELECT toInt64(number) AS device_no, toInt64(0) AS slot, $holder FROM numbers($gpus))
ARRAY JOIN ['inventory', 'service'] AS fact
GROUP BY node_no, node_name, site_name, fact
""")

MARKS = Template("""
INSERT INTO marks (allocations_partition, origin_partition, origin_offset, marked_at, stale_sources)
SELECT number % 12, intDiv(number, 12), 1000000, fromUnixTimestamp64Micro($to_us + 400000000, 'UTC'), []
FROM numbers(144)
""")
