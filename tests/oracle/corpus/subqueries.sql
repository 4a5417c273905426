-- Sub-queries in every place and of every kind.

-- name: scalar_subquery
SELECT id, (SELECT max(w) FROM u) AS most FROM t;

-- name: scalar_subquery_in_where
SELECT id FROM t WHERE v > (SELECT avg(v) FROM t);

-- name: scalar_subquery_of_nothing
SELECT id, (SELECT w FROM u WHERE k = 99) AS w FROM t;

-- name: scalar_subquery_in_case
SELECT id, CASE WHEN v > (SELECT min(v) FROM c) THEN 'more' ELSE 'less' END AS what FROM t;

-- name: scalar_subquery_in_having
SELECT k, sum(v) AS total FROM t GROUP BY k HAVING sum(v) > (SELECT min(w) FROM u) / 10;

-- name: scalar_subquery_in_an_aggregate
SELECT sum(v - (SELECT min(v) FROM t)) AS above FROM t;

-- name: correlated_scalar
SELECT t.id, (SELECT max(u.w) FROM u WHERE u.k = t.k) AS w FROM t;

-- name: correlated_count
SELECT u.k, (SELECT count(*) FROM t WHERE t.k = u.k) AS n FROM u;

-- name: correlated_scalar_in_where
SELECT id FROM t WHERE v >= (SELECT max(s.v) FROM t s WHERE s.k = t.k);

-- name: correlated_by_two_columns
SELECT t.id, (SELECT sum(u.w) FROM u WHERE u.k = t.k AND u.g = t.g) AS w FROM t;

-- name: correlated_by_inequality
SELECT u.k, (SELECT count(*) FROM t WHERE t.v < u.w) AS n FROM u;

-- name: correlated_with_outer_arithmetic
SELECT u.k, (SELECT sum(t.v) FROM t WHERE t.k = u.k) + u.w AS s FROM u;

-- name: correlated_in_having
SELECT k, count(*) AS n FROM t GROUP BY k HAVING count(*) >= (SELECT count(*) FROM c WHERE c.k = t.k);

-- name: in_subquery
SELECT id FROM t WHERE k IN (SELECT k FROM u WHERE w >= 100);

-- name: not_in_subquery
SELECT id FROM t WHERE k NOT IN (SELECT k FROM u);

-- name: not_in_with_nulls
SELECT id FROM t WHERE k NOT IN (SELECT k FROM c);

-- name: in_of_two_columns
SELECT id FROM t WHERE (k, g) IN (SELECT k, g FROM u);

-- name: not_in_of_two_columns
SELECT id FROM t WHERE (k, g) NOT IN (SELECT k, g FROM u WHERE g IS NOT NULL);

-- name: correlated_in
SELECT id FROM t WHERE v IN (SELECT c.v + 6 FROM c WHERE c.k = t.k);

-- name: in_or_something_else
SELECT id FROM t WHERE k IN (SELECT k FROM u) OR v > 8;

-- name: in_of_a_group
SELECT id FROM t WHERE k IN (SELECT k FROM c GROUP BY k HAVING count(*) > 1);

-- name: in_of_a_union
SELECT id FROM t WHERE k IN (SELECT k FROM u UNION SELECT k FROM c);

-- name: in_inside_case
SELECT id, CASE WHEN k IN (SELECT k FROM u) THEN 1 ELSE 0 END AS there FROM t;

-- name: exists_subquery
SELECT id FROM t WHERE EXISTS (SELECT * FROM u WHERE u.k = t.k);

-- name: not_exists_subquery
SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k);

-- name: exists_uncorrelated
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE w = 500);

-- name: exists_by_inequality
SELECT k FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k AND t.v > u.w / 10);

-- name: exists_in_not_exists
SELECT k FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = u.k AND NOT EXISTS (SELECT 1 FROM c WHERE c.k = t.k));

-- name: exists_as_a_value
SELECT u.k, EXISTS (SELECT 1 FROM t WHERE t.k = u.k) AS found FROM u;

-- name: exists_or_exists
SELECT k FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.k = u.k) OR EXISTS (SELECT 1 FROM c WHERE c.k = u.k);

-- name: subquery_in_a_join_condition
SELECT t.id, u.k FROM t JOIN u ON t.k = u.k AND u.w > (SELECT min(v) FROM c);

-- name: subquery_in_group_by
SELECT v > (SELECT min(v) FROM c) AS more, count(*) AS n FROM t GROUP BY v > (SELECT min(v) FROM c);

-- name: subquery_reading_a_cte
WITH x AS (SELECT k, sum(v) AS total FROM t GROUP BY k) SELECT k, total FROM x WHERE total = (SELECT max(total) FROM x);

-- name: subquery_in_a_function
SELECT id, coalesce(v, (SELECT max(v) FROM t), 0) AS v FROM t;

-- name: subquery_with_limit
SELECT id FROM t WHERE k = (SELECT k FROM u ORDER BY k LIMIT 1);

-- name: subquery_as_an_argument_of_in_list
SELECT id FROM t WHERE k IN (1, (SELECT max(k) FROM u));
