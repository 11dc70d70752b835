-- How many rows of each kind are there, each counted once?
SELECT
    (SELECT count() FROM v_usage_lines) AS usage_lines,
    (SELECT count() FROM v_cost_rows) AS cost_rows,
    (SELECT countIf(entry = 'reversal') FROM v_usage_lines) AS line_reversals,
    (SELECT countIf(entry = 'correction') FROM v_usage_lines) AS line_corrections,
    (SELECT countIf(entry = 'reversal') FROM v_cost_rows) AS cost_reversals,
    (SELECT countIf(entry = 'correction') FROM v_cost_rows) AS cost_corrections,
    (SELECT count() FROM v_device_totals) AS device_totals,
    (SELECT uniqExact(discrepancy_id) FROM v_discrepancies) AS discrepancies,
    (SELECT count() FROM v_dead_letters) AS dead_letters
