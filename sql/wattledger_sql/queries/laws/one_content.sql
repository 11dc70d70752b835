-- One content: no id stands for two different rows. (Discrepancies may be told again in other words.)
SELECT concat('usage_lines ', line_id) AS what, toInt256(1) AS residual
FROM usage_lines GROUP BY line_id HAVING min(content_hash) != max(content_hash)
UNION ALL
SELECT concat('device_totals ', total_id), toInt256(1)
FROM device_totals GROUP BY total_id HAVING min(content_hash) != max(content_hash)
UNION ALL
SELECT concat('cost_rows ', row_id), toInt256(1)
FROM cost_rows GROUP BY row_id HAVING min(content_hash) != max(content_hash)
UNION ALL
SELECT concat('allocation_revisions ', revision_id), toInt256(1)
FROM allocation_revisions GROUP BY revision_id HAVING min(content_hash) != max(content_hash)
UNION ALL
SELECT concat('node_revisions ', revision_id), toInt256(1)
FROM node_revisions GROUP BY revision_id HAVING min(content_hash) != max(content_hash)
UNION ALL
SELECT concat('prices ', revision_id), toInt256(1)
FROM prices GROUP BY revision_id HAVING min(content_hash) != max(content_hash)
UNION ALL
SELECT concat('threshold_events ', event_id), toInt256(1)
FROM threshold_events GROUP BY event_id HAVING min(content_hash) != max(content_hash)
