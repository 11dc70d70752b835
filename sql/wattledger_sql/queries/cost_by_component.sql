-- What do all cost rows sum to, by component and currency? The side of the money law that is compared with the topic.
SELECT
    toString(component) AS component_name,
    toString(currency) AS currency_code,
    toString(sum(ifNull(cost, toDecimal128(0, 12)))) AS amount,
    sum(toInt64(sign)) AS standing_rows
FROM v_cost_rows
GROUP BY component, currency
ORDER BY component, currency
