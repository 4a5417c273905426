-- Clauses of SELECT, one by one.

-- name: select_star
SELECT * FROM t;

-- name: select_table_star
SELECT a.*, a.v + 1 AS more FROM t AS a;

-- name: select_star_except
SELECT * EXCEPT (tags, st, d) FROM t;

-- name: select_expressions_and_aliases
SELECT id AS `the id`, v * 2 double_v, 'text' AS s, TRUE AS yes FROM t;

-- name: select_without_aliases
SELECT id, v + 1, upper(g) FROM t;

-- name: lateral_column_alias
SELECT id, v * 2 AS twice, twice + 1 AS once_more FROM t;

-- name: lateral_column_alias_of_an_aggregate
SELECT k, sum(v) AS total, total * 10 AS tenfold FROM t GROUP BY k;

-- name: select_all_rows
SELECT ALL k FROM t;

-- name: select_distinct
SELECT DISTINCT k, g FROM t;

-- name: select_distinct_star
SELECT DISTINCT * FROM u;

-- name: table_alias_with_columns
SELECT a, d FROM u AS y (a, b, c, d) WHERE c > 100;

-- name: where_with_every_connective
SELECT id FROM t WHERE (v > 5 AND NOT ok) OR (k = 1 AND (g = 'a' OR g IS NULL));

-- name: where_of_a_boolean_column
SELECT id FROM t WHERE ok;

-- name: where_of_a_null_constant
SELECT id FROM t WHERE CAST(NULL AS BOOLEAN);

-- name: group_by_expression
SELECT v % 3 AS rest, count(*) AS n FROM t GROUP BY v % 3;

-- name: group_by_position
SELECT g, k, count(*) AS n FROM t GROUP BY 1, 2;

-- name: group_by_alias
SELECT coalesce(g, '-') AS letter, sum(v) AS total FROM t GROUP BY letter;

-- name: group_by_nothing_selected
SELECT count(*) AS n FROM t GROUP BY k, g;

-- name: group_by_grouping_sets
SELECT k, g, sum(v) AS total FROM t GROUP BY GROUPING SETS ((k, g), (g), ());

-- name: group_by_columns_and_grouping_sets
SELECT k, g, ok, count(*) AS n FROM t GROUP BY k, GROUPING SETS ((g), (ok), ());

-- name: group_by_nested_grouping_sets
SELECT k, g, count(*) AS n FROM t GROUP BY GROUPING SETS (ROLLUP (k, g), CUBE (g));

-- name: group_by_rollup
SELECT g, k, sum(v) AS total, grouping(g) AS no_g, grouping_id() AS gid FROM t GROUP BY ROLLUP (g, k);

-- name: group_by_cube
SELECT g, ok, count(v) AS n, grouping_id(g, ok) AS gid FROM t GROUP BY CUBE (g, ok);

-- name: group_by_cube_of_pairs
SELECT g, k, ok, count(*) AS n FROM t GROUP BY CUBE ((g, k), ok);

-- name: group_by_rollup_and_cube
SELECT g, k, ok, count(*) AS n FROM t GROUP BY ROLLUP (g), CUBE (k, ok);

-- name: group_by_the_empty_set
SELECT count(*) AS n, max(v) AS most FROM t GROUP BY GROUPING SETS (());

-- name: having
SELECT k, sum(v) AS total FROM t GROUP BY k HAVING sum(v) > 10 AND count(*) >= 1;

-- name: having_an_alias
SELECT k, count(*) AS n FROM t GROUP BY k HAVING n > 1 OR k IS NULL;

-- name: having_without_group_by
SELECT max(v) AS most FROM t HAVING count(*) > 3;

-- name: qualify
SELECT id, k, v FROM t QUALIFY rank() OVER (PARTITION BY k ORDER BY v DESC NULLS LAST) = 1;

-- name: qualify_an_alias
SELECT id, dense_rank() OVER (ORDER BY g NULLS FIRST) AS place FROM t QUALIFY place <= 2;

-- name: order_by_directions
SELECT id, v, g FROM t ORDER BY v DESC, g ASC, id;

-- name: order_by_nulls_first_and_last
SELECT id, v FROM t ORDER BY v ASC NULLS LAST, k DESC NULLS FIRST, id LIMIT 4;

-- name: order_by_position
SELECT g, id FROM t ORDER BY 1 DESC, 2 LIMIT 3;

-- name: order_by_alias
SELECT id, -v AS less FROM t ORDER BY less, id LIMIT 3;

-- name: order_by_expression
SELECT id, g FROM t ORDER BY coalesce(v, 0) % 4, id LIMIT 3;

-- name: order_by_aggregate
SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY max(id), k LIMIT 2;

-- name: order_by_unselected_column
SELECT g FROM u ORDER BY k DESC LIMIT 2;

-- name: limit_of_an_expression
SELECT id FROM t ORDER BY id LIMIT 1 + 1;

-- name: limit_all
SELECT id FROM t ORDER BY id LIMIT ALL;

-- name: limit_nothing
SELECT id, g FROM t LIMIT 0;

-- name: offset_alone
SELECT k, w FROM u ORDER BY k OFFSET 1;

-- name: limit_and_offset
SELECT k, w FROM u ORDER BY k DESC LIMIT 2 OFFSET 1;

-- name: sort_by
SELECT id, v FROM t SORT BY v DESC, id;

-- name: distribute_by_and_sort_by
SELECT id, k FROM t DISTRIBUTE BY k SORT BY id;

-- name: cluster_by
SELECT id, g FROM t CLUSTER BY g;

-- name: partitioning_hints
SELECT /*+ REPARTITION(3, k) */ id, k FROM t;

-- name: coalesce_and_rebalance_hints
SELECT /*+ COALESCE(1), REBALANCE */ id, v FROM t;

-- name: join_hint
SELECT /*+ BROADCAST(u) */ t.id, u.w FROM t JOIN u ON t.k = u.k;

-- name: merge_join_hint
SELECT /*+ MERGE(t), SHUFFLE_HASH(u) */ t.id, u.w FROM t JOIN u ON t.k = u.k;

-- name: with_two_names
WITH x AS (SELECT k, v FROM t WHERE v > 1), y AS (SELECT k, sum(v) AS total FROM x GROUP BY k) SELECT x.k, x.v, y.total FROM x JOIN y ON x.k = y.k;

-- name: with_columns
WITH x (key, total) AS (SELECT k, sum(v) FROM t GROUP BY k) SELECT key, total FROM x WHERE total > 5;

-- name: with_nested
WITH x AS (WITH y AS (SELECT k, w FROM u) SELECT k, w + 1 AS w FROM y) SELECT k, w FROM x;

-- name: with_read_twice
WITH x AS (SELECT k, count(*) AS n FROM t GROUP BY k) SELECT a.k, a.n + b.n AS n FROM x a JOIN x b ON a.k = b.k;

-- name: with_recursive
WITH RECURSIVE steps (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM steps WHERE n < 4) SELECT t.id, s.n FROM t JOIN steps s ON s.n <= t.k;

-- name: with_recursive_over_a_table
WITH RECURSIVE up (k, depth) AS (SELECT k, 0 FROM u UNION ALL SELECT k + 1, depth + 1 FROM up WHERE depth < 2) SELECT k, depth, count(*) AS n FROM up GROUP BY k, depth;

-- name: values_joined
SELECT t.id, x.label FROM t JOIN (VALUES (1, 'one'), (2, 'two')) AS x (k, label) ON t.k = x.k;

-- name: values_united
SELECT k, g FROM u UNION ALL VALUES (7, 'seven'), (8, NULL);

-- name: inline_table_alone_in_a_cte
WITH x AS (SELECT * FROM VALUES (1), (3) AS x (k)) SELECT id FROM t WHERE k IN (SELECT k FROM x);

-- name: table_statement
TABLE u;

-- name: from_first
FROM u SELECT k, w WHERE k > 1;

-- name: parenthesised_query
(SELECT id, g FROM t WHERE id > 2);

-- name: derived_tables_in_derived_tables
SELECT a.g, a.n FROM (SELECT b.g, count(*) AS n FROM (SELECT g FROM t WHERE v IS NOT NULL) AS b GROUP BY b.g) AS a;

-- name: comments_and_quoted_names
SELECT `t`.`id` /* the id */, `v` -- the value
FROM `t` WHERE `t`.`g` = "a";

-- name: string_literals
SELECT id, 'it''s' AS a, "double" AS b, r'raw\n' AS c, 'tab\there' AS d, 'a' 'b' AS e FROM t;

-- name: number_literals
SELECT id, 1Y AS a, 2S AS b, 3L AS c, 1.5BD AS d, 2.5D AS e, 1.5F AS f, 1e3 AS h, .5 AS i, -7 AS j FROM t;

-- name: other_literals
SELECT id, DATE '2024-05-01' AS a, TIMESTAMP '2024-05-01 10:00:00' AS b, TIMESTAMP_NTZ '2024-05-01 10:00:00' AS c, X'1A2B' AS d, INTERVAL 3 DAYS AS e FROM t;

-- name: columns_unpacked_from_a_struct
SELECT id, st.a AS a, st.b AS b, named_struct('x', v, 'y', g).y AS y FROM t;

-- name: select_of_constants_alone
SELECT 1 AS one, 'x' AS s FROM c;
