-- Reversals: every row that takes another back has that row, is its exact negation, and says so by sign and entry.
SELECT concat('usage_lines ', after.line_id, ' takes back ', after.of_line_id) AS what, toInt256(1) AS residual
FROM (SELECT * FROM v_usage_lines WHERE sign != 1 OR entry = 'reversal' OR of_line_id != '') AS after
LEFT JOIN v_usage_lines AS before ON before.line_id = after.of_line_id
WHERE NOT (
    after.sign = -1 AND after.entry = 'reversal' AND before.sign = 1 AND after.cause_id != ''
    AND (after.kind, after.group_start_at, after.group_end_at, after.node, after.device, after.gpu_instance, after.site,
        after.gpu_model, after.state, after.reason, after.tenant_id, after.project, after.user_name, after.model_tag,
        after.cluster, after.job, after.attempt, after.allocation_id, after.plan, after.sku, after.start_at,
        after.end_at, after.method, after.marks)
    = (before.kind, before.group_start_at, before.group_end_at, before.node, before.device, before.gpu_instance,
        before.site, before.gpu_model, before.state, before.reason, before.tenant_id, before.project,
        before.user_name, before.model_tag, before.cluster, before.job, before.attempt, before.allocation_id,
        before.plan, before.sku, before.start_at, before.end_at, before.method, before.marks)
    AND (after.span_us, after.device_us, after.idle_energy_uj, after.busy_us)
    = (-before.span_us, -before.device_us, -before.idle_energy_uj, -before.busy_us)
    AND isNull(after.energy_uj) = isNull(before.energy_uj)
    AND ifNull(after.energy_uj, 0) = -ifNull(before.energy_uj, 0)
)
UNION ALL
SELECT concat('device_totals ', after.total_id, ' takes back ', after.of_total_id), toInt256(1)
FROM (SELECT * FROM v_device_totals WHERE sign != 1 OR entry = 'reversal' OR of_total_id != '') AS after
LEFT JOIN v_device_totals AS before ON before.total_id = after.of_total_id
WHERE NOT (
    after.sign = -1 AND after.entry = 'reversal' AND before.sign = 1 AND after.cause_id != ''
    AND (after.kind, after.group_start_at, after.group_end_at, after.node, after.device, after.batch_partition,
        after.batch_offset)
    = (before.kind, before.group_start_at, before.group_end_at, before.node, before.device, before.batch_partition,
        before.batch_offset)
    AND (after.in_service_us, after.energy_uj, after.measured_us, after.unknown_us)
    = (-before.in_service_us, -before.energy_uj, -before.measured_us, -before.unknown_us)
)
UNION ALL
-- A row that takes back a reversal counts +1 again and is a correction.
SELECT concat('cost_rows ', after.row_id, ' takes back ', after.of_row_id), toInt256(1)
FROM (SELECT * FROM v_cost_rows WHERE sign != 1 OR entry = 'reversal' OR of_row_id != '') AS after
LEFT JOIN v_cost_rows AS before ON before.row_id = after.of_row_id
WHERE NOT (
    after.sign = -before.sign AND before.sign IN (1, -1) AND (after.entry = 'reversal') = (after.sign = -1)
    AND after.entry != 'original' AND after.cause_id != ''
    AND (after.component, after.group_start_at, after.group_end_at, after.node, after.device, after.gpu_instance,
        after.site, after.gpu_model, after.state, after.tenant_id, after.project, after.model_tag, after.cluster,
        after.job, after.attempt, after.allocation_id, after.plan, after.sku, after.start_at, after.end_at,
        after.unit, after.price_id, after.marginal, after.currency, after.status, after.reason)
    = (before.component, before.group_start_at, before.group_end_at, before.node, before.device, before.gpu_instance,
        before.site, before.gpu_model, before.state, before.tenant_id, before.project, before.model_tag,
        before.cluster, before.job, before.attempt, before.allocation_id, before.plan, before.sku, before.start_at,
        before.end_at, before.unit, before.price_id, before.marginal, before.currency, before.status, before.reason)
    AND isNull(after.rate) = isNull(before.rate) AND ifNull(after.rate, 0) = ifNull(before.rate, 0)
    AND isNull(after.pue) = isNull(before.pue) AND ifNull(after.pue, 0) = ifNull(before.pue, 0)
    AND isNull(after.quantity) = isNull(before.quantity) AND ifNull(after.quantity, 0) = -ifNull(before.quantity, 0)
    AND isNull(after.cost) = isNull(before.cost)
    AND ifNull(after.cost, toDecimal128(0, 12)) = -ifNull(before.cost, toDecimal128(0, 12))
)
