-- Window functions.

-- name: window_ranks
SELECT id, rank() OVER (PARTITION BY g ORDER BY k) AS r, dense_rank() OVER (PARTITION BY g ORDER BY k) AS dr, percent_rank() OVER (PARTITION BY g ORDER BY k) AS pr, cume_dist() OVER (PARTITION BY g ORDER BY k) AS cd FROM t;

-- name: window_row_number
SELECT id, row_number() OVER (ORDER BY id) AS n FROM t;

-- name: window_row_number_by_key
SELECT k, note, row_number() OVER (PARTITION BY k ORDER BY v DESC, note) AS n FROM c;

-- name: window_ntile
SELECT k, ntile(2) OVER (ORDER BY k) AS half FROM u;

-- name: window_lag_and_lead
SELECT k, lag(w) OVER (ORDER BY k) AS before, lead(w) OVER (ORDER BY k) AS after FROM u;

-- name: window_lag_with_default
SELECT k, lag(w, 2, -1) OVER (ORDER BY k) AS before, lead(w, 1, 0) OVER (ORDER BY k DESC) AS after FROM u;

-- name: window_lag_ignoring_nulls
SELECT k, lag(w) IGNORE NULLS OVER (ORDER BY k) AS before, lead(w, 1) RESPECT NULLS OVER (ORDER BY k) AS after FROM u;

-- name: window_first_and_last_value
SELECT id, first_value(v) OVER (PARTITION BY k ORDER BY id) AS f, last_value(v) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM t;

-- name: window_first_value_ignoring_nulls
SELECT k, first_value(w) IGNORE NULLS OVER (ORDER BY k DESC) AS f, any_value(g) IGNORE NULLS OVER (PARTITION BY k) AS a FROM u;

-- name: window_nth_value
SELECT k, nth_value(w, 2) OVER (ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS second FROM u;

-- name: window_nth_value_ignoring_nulls
SELECT k, nth_value(w, 1) IGNORE NULLS OVER (ORDER BY k) AS first_known FROM u;

-- name: window_sum_over_partition
SELECT id, sum(v) OVER (PARTITION BY k) AS total, count(*) OVER (PARTITION BY k) AS n FROM t;

-- name: window_running_sum
SELECT id, sum(v) OVER (ORDER BY id) AS running FROM t;

-- name: window_over_everything
SELECT id, max(v) OVER () AS most, min(v) OVER () AS least FROM t;

-- name: window_rows_between
SELECT k, sum(w) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM u;

-- name: window_rows_preceding
SELECT k, sum(w) OVER (ORDER BY k ROWS 2 PRECEDING) AS s, count(w) OVER (ORDER BY k ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS n FROM u;

-- name: window_rows_before_alone
SELECT k, avg(w) OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS earlier FROM u;

-- name: window_range_between
SELECT k, count(*) OVER (ORDER BY k RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS near FROM u;

-- name: window_range_descending
SELECT id, sum(v) OVER (ORDER BY id DESC RANGE BETWEEN CURRENT ROW AND 2 FOLLOWING) AS s FROM t;

-- name: window_range_of_intervals
SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL 30 MINUTES PRECEDING AND CURRENT ROW) AS n FROM t;

-- name: window_range_of_days
SELECT id, count(*) OVER (ORDER BY day RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS n FROM t;

-- name: window_range_unbounded
SELECT id, sum(v) OVER (PARTITION BY g ORDER BY k RANGE UNBOUNDED PRECEDING) AS s FROM t;

-- name: window_named
SELECT id, sum(v) OVER w AS s, count(*) OVER w AS n FROM t WINDOW w AS (PARTITION BY k ORDER BY id);

-- name: window_named_twice
SELECT id, max(v) OVER a AS m, rank() OVER b AS r FROM t WINDOW a AS (PARTITION BY k), b AS (PARTITION BY g ORDER BY id);

-- name: window_over_groups
SELECT k, sum(v) AS total, sum(sum(v)) OVER (ORDER BY k) AS running, rank() OVER (ORDER BY count(*) DESC, k) AS place FROM t GROUP BY k;

-- name: window_in_an_expression
SELECT id, v - avg(v) OVER (PARTITION BY g) AS off FROM t;

-- name: window_filtered_in_a_derived_table
SELECT id, k FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY id DESC) AS n FROM t) WHERE n = 1;

-- name: window_top_two
SELECT k, v FROM (SELECT k, v, dense_rank() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST) AS r FROM c) WHERE r <= 2;

-- name: window_collecting
SELECT id, collect_list(v) OVER (PARTITION BY k ORDER BY id) AS vs, sort_array(collect_set(g) OVER (PARTITION BY k)) AS gs FROM t;

-- name: window_statistics
SELECT id, stddev(v) OVER (PARTITION BY k) AS s, max_by(g, id) OVER (PARTITION BY k) AS g2, bool_or(ok) OVER (PARTITION BY k) AS any_ok FROM t;

-- name: window_filtered_aggregate
SELECT id, count(*) FILTER (WHERE v > 5) OVER (PARTITION BY k) AS n FROM t;

-- name: window_by_expression
SELECT id, sum(v) OVER (PARTITION BY k % 2 ORDER BY coalesce(v, 0), id) AS s FROM t;

-- name: window_over_a_join
SELECT t.id, sum(u.w) OVER (PARTITION BY u.g ORDER BY t.id) AS s FROM t JOIN u ON t.k = u.k;

-- name: window_with_distinct
SELECT DISTINCT k, max(v) OVER (PARTITION BY k) AS most FROM t;
