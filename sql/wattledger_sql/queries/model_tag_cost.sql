-- What did the work under each model tag cost? One row a tag, dearest first; untagged work under an empty tag.
SELECT
    model_tag,
    sum(part.held_us) AS held_us,
    sum(part.energy_uj) AS energy_uj,
    sum(part.cost_total) AS cost_total,
    sum(part.billed) AS billed,
    sum(part.margin) AS margin,
    sum(part.unpriced_rows) AS unpriced_rows,
    sum(part.unmeasured_rows) AS unmeasured_rows,
    arrayStringConcat(arraySort(groupUniqArrayIf(part.currency, part.currency != '')), ',') AS currency
FROM v_model_tag_cost_hour AS part
GROUP BY model_tag
ORDER BY cost_total DESC, model_tag
