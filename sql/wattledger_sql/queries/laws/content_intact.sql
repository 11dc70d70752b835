-- Content: every row is still what was inserted: the hash kept with it is the hash of its columns. A row that was changed
-- by hand is found even where all sums still agree. The expression is that of the table's content_hash.
SELECT concat('usage_lines ', line_id) AS what, toInt256(1) AS residual
FROM usage_lines
WHERE content_hash != sipHash64(tuple(
    line_id, kind, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state, reason,
    tenant_id, project, user_name, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at,
    span_us, device_us, energy_uj, idle_energy_uj, busy_us, method, marks, sign, entry, of_line_id, cause_id
))
UNION ALL
SELECT concat('device_totals ', total_id) AS what, toInt256(1) AS residual
FROM device_totals
WHERE content_hash != sipHash64(tuple(
    total_id, kind, group_start_at, group_end_at, node, device, in_service_us, energy_uj, measured_us, unknown_us,
    sign, entry, of_total_id, cause_id
))
-- rows from before migration 0026, where the place of the sample record counted as content
AND content_hash != sipHash64(tuple(
    total_id, kind, group_start_at, group_end_at, node, device, in_service_us, energy_uj, measured_us, unknown_us,
    batch_partition, batch_offset, sign, entry, of_total_id, cause_id
))
UNION ALL
SELECT concat('discrepancies ', discrepancy_id) AS what, toInt256(1) AS residual
FROM discrepancies
WHERE content_hash != sipHash64(tuple(
    discrepancy_id, kind, node, device, start_at, end_at, tenant_id, allocation_ids, detail
))
UNION ALL
SELECT concat('cost_rows ', row_id) AS what, toInt256(1) AS residual
FROM cost_rows
WHERE content_hash != sipHash64(tuple(
    row_id, line_id, component, group_start_at, group_end_at, node, device, gpu_instance, site, gpu_model, state,
    tenant_id, project, model_tag, cluster, job, attempt, allocation_id, plan, sku, start_at, end_at, quantity, unit,
    price_id, price_revision_id, rate, pue, marginal, cost, currency, status, reason, sign, entry, of_row_id, cause_id
))
UNION ALL
SELECT concat('allocation_revisions ', revision_id) AS what, toInt256(1) AS residual
FROM allocation_revisions
WHERE content_hash != sipHash64(tuple(
    revision_id, allocation_id, origin_partition, origin_offset, origin_seq, known_at, cluster, job, attempt, segment,
    node, device, gpu_instance, share_num, share_den, tenant_id, project, user_name, model_tag, plan, sku,
    requested_profile, delivered_profile, exclusive, cpus, memory_bytes, storage_bytes, start_at, end_at,
    stop_requested_at, outcome, marks, void, announced
))
UNION ALL
SELECT concat('node_revisions ', revision_id) AS what, toInt256(1) AS residual
FROM node_revisions
WHERE content_hash != sipHash64(tuple(
    revision_id, fact_id, origin_partition, origin_offset, origin_seq, known_at, node, cluster, kind, start_at,
    end_at, site, devices, cpus, memory_bytes, state, reason, reservation_id, tenant_id, reserved_devices, marks,
    void, announced
))
UNION ALL
SELECT concat('prices ', revision_id) AS what, toInt256(1) AS residual
FROM prices
WHERE content_hash != sipHash64(tuple(
    price_id, revision_id, origin_partition, origin_offset, origin_seq, known_at, kind, start_at, end_at, rate,
    currency, site, gpu_model, tenant_id, plan, sku, pue, pool_name, driver, marginal, author, reason
))
UNION ALL
SELECT concat('threshold_events ', event_id) AS what, toInt256(1) AS residual
FROM threshold_events
WHERE content_hash != sipHash64(tuple(
    event_id, rule, scope, transition, observed_at, tenant_id, node, severity, value, threshold, unit, detail
))
UNION ALL
SELECT concat('dead_letters ', topic, '/', toString(topic_partition), '/', toString(topic_offset)) AS what, toInt256(1) AS residual
FROM dead_letters
WHERE content_hash != sipHash64(tuple(
    topic, topic_partition, topic_offset, reason_code, detail, processor, record_key, record_value
))
UNION ALL
SELECT concat('gaps ', node, '/', agent, '/', toString(from_seq)) AS what, toInt256(1) AS residual
FROM gaps
WHERE content_hash != sipHash64(tuple(
    node, agent, topic, from_seq, to_seq, record_count, from_at, to_at, reason
))
