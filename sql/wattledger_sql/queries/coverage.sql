-- How much was measured and priced? measured_ratio: time of batches with known energy ÷ time in service, from the totals
-- kept apart (a device counts once, however many share it). Rows without price, rate or energy are counted as they stand.
SELECT
    measured_us,
    unknown_us,
    in_service_us,
    if(in_service_us > 0, toDecimal64(toDecimal256(measured_us, 6) / in_service_us, 6), NULL) AS measured_ratio,
    unpriced_rows,
    unbilled_rows,
    unmeasured_rows
FROM
(
    SELECT
        sumIf(toInt128(totals.measured_us), kind = 'energy') AS measured_us,
        sumIf(toInt128(totals.unknown_us), kind = 'energy') AS unknown_us,
        sumIf(toInt128(totals.in_service_us), kind = 'time') AS in_service_us
    FROM v_device_totals AS totals
) AS measured
CROSS JOIN
(
    SELECT
        sumIf(toInt64(sign), status = 'unpriced' AND component != 'billed') AS unpriced_rows,
        sumIf(toInt64(sign), status = 'unpriced' AND component = 'billed') AS unbilled_rows,
        sumIf(toInt64(sign), status = 'unmeasured') AS unmeasured_rows
    FROM v_cost_rows
) AS priced
