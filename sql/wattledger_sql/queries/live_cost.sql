-- What does the running day cost each tenant so far? Metered rows, and an estimate of what runs and is not metered yet.
SELECT
    tenant_id, day_on, as_of_at, cost_metered, cost_running, cost_estimate, billed_estimate, running_us,
    running_without_rate_us, unpriced_rows, currency
FROM v_live_cost
ORDER BY cost_estimate DESC, tenant_id
