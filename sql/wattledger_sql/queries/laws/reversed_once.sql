-- Reversed once: nothing takes back a line or total twice; of the rows that take back a cost row, at most one stands.
-- (A late price takes a row back; a late allocation that later takes back its line takes back both, step by step.)
SELECT concat('usage_lines ', of_line_id, ' is taken back ', toString(count()), ' times') AS what, toInt256(count() - 1) AS residual
FROM v_usage_lines WHERE of_line_id != '' GROUP BY of_line_id HAVING count() > 1
UNION ALL
SELECT concat('device_totals ', of_total_id, ' is taken back ', toString(count()), ' times'), toInt256(count() - 1)
FROM v_device_totals WHERE of_total_id != '' GROUP BY of_total_id HAVING count() > 1
UNION ALL
SELECT concat('cost_rows ', of_row_id, ' is taken back ', toString(count()), ' times'), toInt256(count() - 1)
FROM v_cost_rows
WHERE of_row_id != '' AND row_id NOT IN (SELECT of_row_id FROM v_cost_rows WHERE of_row_id != '')
GROUP BY of_row_id HAVING count() > 1
