-- Rows follow lines: a cost row names the place, time, holder and job of its line, and prices what that kind of line has.
SELECT concat('cost_rows ', priced.row_id, ' of line ', priced.line_id) AS what, toInt256(1) AS residual
FROM v_cost_rows AS priced
INNER JOIN v_usage_lines AS line ON line.line_id = priced.line_id
WHERE (priced.group_start_at, priced.group_end_at, priced.node, priced.device, priced.gpu_instance, priced.site,
        priced.gpu_model, priced.state, priced.tenant_id, priced.project, priced.model_tag, priced.cluster, priced.job,
        priced.attempt, priced.allocation_id, priced.plan, priced.sku, priced.start_at, priced.end_at)
    != (line.group_start_at, line.group_end_at, line.node, line.device, line.gpu_instance, line.site,
        line.gpu_model, line.state, line.tenant_id, line.project, line.model_tag, line.cluster, line.job,
        line.attempt, line.allocation_id, line.plan, line.sku, line.start_at, line.end_at)
    OR priced.unit != if(line.kind = 'time', 'us', 'uj')
