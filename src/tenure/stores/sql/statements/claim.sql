-- The scans of a claim.

-- name: head
-- The pending or running job of an ordered group that arrived first; an expired one is out of line.
SELECT job.seq, job.spec, CASE WHEN running.seq IS NULL THEN job.state ELSE 'running' END, job.priority, job.run_at,
       coalesce(running.live, job.live)
FROM tenure.in_order CROSS JOIN tenure.job LEFT JOIN tenure.running ON running.seq = job.seq
WHERE in_order.queue = $1 AND in_order.tenant = $2 AND in_order.grp = $3
  AND (in_order.expires_at IS NULL OR in_order.expires_at > $4) AND job.seq = in_order.seq
ORDER BY in_order.seq LIMIT 1
