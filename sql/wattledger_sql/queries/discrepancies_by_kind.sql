-- Where does the data contradict itself? One row a kind: how many, on how many nodes, and one of them in words.
SELECT
    kind,
    uniqExact(discrepancy_id) AS discrepancies,
    arrayStringConcat(arraySort(groupUniqArray(toString(node))), ',') AS nodes,
    min(start_at) AS first_at,
    max(detail) AS example
FROM v_discrepancies
GROUP BY kind
ORDER BY discrepancies DESC, kind
