-- One currency: amounts are summed, so all are in one. (Exchange rates are not known here.)
SELECT
    concat('cost_rows are in ', arrayStringConcat(arraySort(groupUniqArray(toString(currency))), ', ')) AS what,
    toInt256(uniqExact(currency) - 1) AS residual
FROM v_cost_rows
WHERE status = 'priced'
HAVING uniqExact(currency) > 1
