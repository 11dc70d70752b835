-- Well formed: a line lies in its group and in one quarter-hour, has a known state, and counts +1 or −1; a reserved name
-- stands only where its state says so.
SELECT
    concat('usage_lines ', line_id, ' (', kind, ', ', state, ', ', tenant_id, ') from ', toString(start_at), ' to ', toString(end_at)) AS what,
    toInt256(1) AS residual
FROM v_usage_lines
WHERE NOT (
    start_at < end_at AND group_start_at <= start_at AND end_at <= group_end_at
    AND intDiv(toUnixTimestamp64Micro(start_at), 900000000) = intDiv(toUnixTimestamp64Micro(end_at) - 1, 900000000)
    AND sign IN (1, -1) AND entry IN ('original', 'reversal', 'correction') AND tenant_id != ''
    AND if(kind = 'time',
        state IN ('held', 'free', 'reserved_unused', 'stranded', 'unavailable') AND isNull(energy_uj),
        kind = 'energy' AND state IN ('held', 'idle', 'unattributed') AND device_us = 0)
    AND (state IN ('free', 'idle')) = (tenant_id = '__idle__')
    AND (state = 'unavailable') = (tenant_id = '__unavailable__')
    AND (state = 'unattributed') = (tenant_id = '__unattributed__')
)
