-- Cost: every priced row costs quantity × rate × PUE per hour or kWh, rounded half-even to 12 decimals; a row without a
-- cost says why. In 256-bit integers, without a division: with c the cost in 1e-12, and n/d the exact cost in 1e-12,
-- c is its half-even rounding if and only if |2(n − c·d)| < d, or it equals d and c is even.
WITH
    reinterpretAsInt128(ifNull(cost, toDecimal128(0, 12))) AS c,
    toInt256(ifNull(quantity, 0)) * toInt256(reinterpretAsInt128(ifNull(rate, toDecimal128(0, 12))))
        * toInt256(reinterpretAsInt128(ifNull(pue, toDecimal128(1, 12)))) AS n,
    toInt256(if(unit = 'us', 3600000000, 3600000000000)) * toInt256(1000000000000) AS d,
    abs(2 * (n - toInt256(c) * d)) AS twice_off
SELECT
    concat('cost_rows ', row_id, ' (', component, ', ', status, '): ', toString(quantity), ' ', unit, ' at ', toString(rate),
        ' costs ', toString(cost)) AS what,
    greatest(toInt256(1), intDiv(toInt256(twice_off), 2 * d)) AS residual
FROM v_cost_rows
WHERE NOT multiIf(
    unit != if(component = 'energy', 'uj', if(component IN ('compute', 'billed'), 'us', unit)) OR unit NOT IN ('us', 'uj'), false,
    status = 'priced',
        isNotNull(cost) AND isNotNull(rate) AND isNotNull(quantity) AND price_id != '' AND currency != ''
        AND (twice_off < d OR (twice_off = d AND modulo(c, 2) = 0)),
    status = 'unpriced', isNull(cost) AND isNull(rate) AND reason != '',
    status = 'unmeasured', isNull(cost) AND isNull(quantity) AND reason != '',
    false
)
