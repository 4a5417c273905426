-- Queries that Spark accepts and that once came out wrong, failed, or were refused.

-- suite: full_joins_using_one_key
SELECT k, t.v, u.w, c.note FROM t FULL JOIN u USING (k) FULL JOIN c USING (k);

-- name: right_join_using_then_join_using
SELECT k, t.v, u.w, c.note FROM t RIGHT JOIN u USING (k) JOIN c USING (k);

-- name: right_join_using_then_left_join_using
SELECT k, count(*) AS n, max(c.note) AS note FROM t RIGHT JOIN u USING (k) LEFT JOIN c USING (k) GROUP BY k;

-- name: in_compared_with_false
SELECT id FROM t WHERE (k IN (SELECT k FROM u)) = FALSE;

-- name: in_compared_with_false_null_keys
SELECT id FROM t WHERE (k IN (SELECT k FROM c)) = FALSE;

-- name: in_is_null
SELECT id FROM t WHERE (k IN (SELECT k FROM c)) IS NULL;

-- name: in_as_a_value
SELECT id, k IN (SELECT k FROM c) AS found FROM t;

-- name: in_coalesced
SELECT id FROM t WHERE coalesce(k IN (SELECT k FROM c), TRUE);

-- suite: group_by_with_rollup
SELECT k, g, count(*) AS n FROM t GROUP BY k, g WITH ROLLUP;

-- name: group_by_with_cube
SELECT k, g, count(*) AS n, sum(v) AS total FROM t GROUP BY k, g WITH CUBE;

-- name: collect_list_of_nothing
SELECT collect_list(v) AS vs, collect_set(g) AS gs, size(collect_list(v)) AS n FROM t WHERE id > 1000;

-- suite: collect_list_until_the_last_row_goes
SELECT sort_array(collect_list(v)) AS vs, size(collect_set(g)) AS n FROM t WHERE id IN (1, 3);

-- name: collect_list_in_correlated_subquery
SELECT u.k, (SELECT sort_array(collect_list(t.v)) FROM t WHERE t.k = u.k) AS vs FROM u;

-- name: collect_set_in_correlated_subquery
SELECT u.k, (SELECT size(collect_set(t.g)) FROM t WHERE t.k = u.k) AS n FROM u;

-- suite: cte_named_like_the_table_it_reads
WITH t AS (SELECT k, v FROM t WHERE v > 5) SELECT k, sum(v) AS total FROM t GROUP BY k;

-- name: names_in_another_case
SELECT T.K, U.W FROM T JOIN U ON t.K = u.k;

-- name: aliases_in_another_case
SELECT A.k, sum(a.V) AS Total FROM t AS a GROUP BY A.K;

-- name: group_by_all
SELECT k, g, count(*) AS n FROM t GROUP BY ALL;

-- name: order_by_all
SELECT k, g FROM t ORDER BY ALL;

-- name: column_named_order1
SELECT note, _order1 FROM c ORDER BY v DESC, _order1 LIMIT 3;

-- name: struct_star
SELECT id, st.* FROM t;

-- suite: pipes
FROM t |> WHERE v > 5 |> AGGREGATE sum(v) AS total GROUP BY k;

-- name: lateral_view_inline
SELECT id, a, b FROM t LATERAL VIEW inline(array(st)) s AS a, b;

-- name: inline_in_the_list
SELECT inline(array(named_struct('x', v, 'y', g))) FROM t;

-- name: group_by_a_sum_in_the_other_order
SELECT v + k AS s, count(*) AS n FROM t GROUP BY k + v;

-- name: tumbling_window
SELECT window(ts, '10 minutes') AS w, count(*) AS n FROM t GROUP BY window(ts, '10 minutes');

-- name: tumbling_window_start
SELECT window.start AS s, sum(v) AS total FROM t GROUP BY window(ts, '10 minutes');

-- name: sliding_window
SELECT window(ts, '10 minutes', '5 minutes').end AS e, count(*) AS n FROM t GROUP BY window(ts, '10 minutes', '5 minutes');

-- name: session_window
SELECT session_window(ts, '30 minutes') AS w, count(*) AS n FROM t GROUP BY session_window(ts, '30 minutes');

-- name: session_window_by_key
SELECT k, session_window.start AS s, sum(v) AS total FROM t GROUP BY k, session_window(ts, '5 minutes');

-- name: hll_sketch
SELECT hll_sketch_estimate(hll_sketch_agg(k)) AS n FROM t;

-- name: hll_union
SELECT g, hll_sketch_estimate(hll_union_agg(s)) AS n FROM (SELECT g, hll_sketch_agg(k) AS s FROM t GROUP BY g) GROUP BY g;

-- name: approx_top_k
SELECT approx_top_k(k, 3) AS top FROM t WHERE k = 1;

-- name: nested_exists
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS (SELECT 1 FROM c WHERE c.k = u.k));

-- name: nested_exists_two_levels_out
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.w IN (SELECT w FROM u));

-- name: subquery_in_order_by
SELECT id FROM t ORDER BY (SELECT max(w) FROM u), id LIMIT 3;

-- name: equals_any
SELECT k FROM t GROUP BY k HAVING TRUE = ANY (ok);

-- name: like_any
SELECT id FROM t WHERE g LIKE ANY ('a%', 'b%');

-- name: tablesample_all
SELECT id FROM t TABLESAMPLE (100 PERCENT);

-- name: identifier_clause
SELECT id, k FROM IDENTIFIER('t');

-- name: range_joined
SELECT t.id, r.id AS n FROM t JOIN range(5) r ON t.k = r.id;

-- name: collation
SELECT note COLLATE UTF8_LCASE AS note, count(*) AS n FROM c GROUP BY note COLLATE UTF8_LCASE;

-- name: collated_comparison
SELECT k FROM c WHERE note COLLATE UTF8_LCASE = 'first note';

-- name: interval_arithmetic
SELECT id, ts + INTERVAL 1 DAY AS next, ts - INTERVAL '1:30' HOUR TO MINUTE AS before, day + INTERVAL 1 MONTH AS later FROM t;

-- name: difference_of_timestamps
SELECT id, ts - TIMESTAMP '2024-01-01 00:00:00' AS since, day - DATE '2024-01-01' AS days FROM t;

-- name: sum_of_intervals
SELECT k, max(ts) - min(ts) AS span FROM t GROUP BY k;

-- name: string_functions
SELECT id, initcap(g) AS a, lpad(g, 3, '*') AS b, split('a,b', ',') AS c, translate(g, 'ab', 'AB') AS d, overlay('hello' PLACING 'XX' FROM 2) AS e, position('a' IN g) AS f, trim(BOTH 'a' FROM g) AS h, substring(g FROM 1 FOR 1) AS i, regexp_extract(g, '(a)', 1) AS j FROM t;

-- name: date_functions
SELECT id, extract(YEAR FROM ts) AS y, date_trunc('HOUR', ts) AS h, add_months(day, 1) AS m, date_format(ts, 'yyyy-MM') AS f, months_between(ts, TIMESTAMP '2024-01-01') AS b, trunc(day, 'MM') AS t, dayofweek(day) AS w, timestampdiff(HOUR, TIMESTAMP '2024-01-01', ts) AS n, dateadd(DAY, 3, day) AS a, last_day(day) AS l, to_date('2024-01-05') AS z FROM t;

-- name: array_functions
SELECT id, transform(tags, x -> upper(x)) AS a, filter(tags, x -> x > 'x') AS b, aggregate(array(1, 2), 0, (s, x) -> s + x) AS c, exists(tags, x -> x = 'y') AS d, array_contains(tags, 'x') AS e, tags[0] AS f, element_at(tags, -1) AS h, array_join(tags, '-') AS i, sequence(1, 3) AS j, zip_with(tags, tags, (x, y) -> concat(x, y)) AS l FROM t WHERE size(tags) > 0;

-- name: map_functions
SELECT id, map('a', v)['a'] AS a, map_keys(map(g, v)) AS ks, transform_values(map('x', v), (k, x) -> x + 1)['x'] AS y FROM t WHERE g IS NOT NULL;

-- name: nan_and_negative_zero_grouped
SELECT d, count(*) AS n, sum(v) AS total FROM t GROUP BY d;

-- name: nan_and_negative_zero_distinct
SELECT DISTINCT d FROM t;

-- name: nan_and_negative_zero_joined
SELECT t.id, u.k FROM t JOIN u ON t.d = u.x;

-- name: nan_and_negative_zero_outer_joined
SELECT t.id, u.k FROM t LEFT JOIN u ON t.d = u.x;

-- name: nan_and_negative_zero_in
SELECT id FROM t WHERE d IN (SELECT x FROM u);

-- name: nan_and_negative_zero_counted
SELECT k, count(DISTINCT d) AS n, max(d) AS most, min(d) AS least FROM t GROUP BY k;

-- name: union_of_int_and_double
SELECT CAST(x AS STRING) AS s, count(*) AS n FROM (SELECT v AS x FROM t UNION SELECT x FROM u) GROUP BY x;

-- name: union_all_of_int_and_double
SELECT CAST(abs(x) AS STRING) AS s FROM (SELECT k AS x FROM u UNION ALL SELECT d FROM t);

-- name: union_of_int_and_decimal
SELECT x, CAST(x AS STRING) AS s FROM (SELECT v AS x FROM t UNION SELECT m FROM t);

-- name: union_of_int_and_bigint
SELECT sum(x) AS total, max(x) * 2000000000 AS large FROM (SELECT w AS x FROM u UNION ALL SELECT v FROM c);

-- name: except_of_int_and_bigint
SELECT v FROM t EXCEPT SELECT v FROM c;

-- name: intersect_of_int_and_double
SELECT k FROM t INTERSECT SELECT x FROM u;

-- name: union_of_string_and_int
SELECT x FROM (SELECT 1 AS x FROM c UNION ALL SELECT CAST(k AS STRING) FROM u);

-- suite: aggregates_of_nothing
SELECT count(*) AS n, sum(v) AS s, max(g) AS m, collect_list(k) AS l, count_if(ok) AS c, approx_count_distinct(k) AS a, bool_or(ok) AS o FROM t WHERE FALSE;

-- name: collected_and_grouped
SELECT k, sort_array(collect_list(v)) AS vs, sort_array(array_agg(g)) AS gs FROM t GROUP BY k;

-- name: idle_cte
WITH idle AS (SELECT * FROM u) SELECT id FROM t;

-- name: select_without_from_beside
SELECT id, 1 AS one FROM t WHERE EXISTS (SELECT 1);

-- name: cte_inside_subquery
SELECT id FROM t WHERE k IN (WITH x AS (SELECT k FROM u WHERE w > 100) SELECT k FROM x);

-- name: extremes_by_another_column_several
SELECT g, max_by(k, id, 2) AS last_two, min_by(k, id, 2) AS first_two FROM (SELECT DISTINCT g, id, k FROM t) GROUP BY g;

-- name: constructed_array_indexed
SELECT id, CAST(array(v, k)[1] AS STRING) AS k FROM t WHERE id > 0;

-- name: identifier_of_a_column
SELECT IDENTIFIER('id') AS i, k FROM t;

-- name: pipe_where_after_limit
FROM u |> ORDER BY k |> LIMIT 2 |> WHERE k > 1 |> SELECT k, w;

-- name: pipe_as_another_table
FROM t |> SELECT id, k |> AS u |> JOIN c ON u.k = c.k |> SELECT u.id, c.note;

-- name: group_by_columns_then_grouping_sets
SELECT k, g, count(*) AS n FROM t GROUP BY k, g GROUPING SETS ((k), (g));

-- name: fields_with_odd_names
SELECT id, named_struct('my field', v, '1', g) AS s, arrays_zip(tags, array(1, 2)) AS z FROM t;

-- name: deleted_rows_with_maps
SELECT id, map(k, tags) AS m, map('x', map('y', g)) AS n FROM t WHERE k IS NOT NULL;
