-- Set operations.

-- name: union_all
SELECT k, g FROM t UNION ALL SELECT k, g FROM u;

-- name: union_distinct
SELECT k, g FROM t UNION DISTINCT SELECT k, g FROM u;

-- name: union_of_three
SELECT k FROM t UNION SELECT k FROM u UNION ALL SELECT k FROM c;

-- name: union_of_one_table_twice
SELECT k, v FROM t UNION ALL SELECT k, v FROM t WHERE v > 8;

-- name: union_ordered
SELECT k FROM t UNION SELECT k FROM u ORDER BY k DESC NULLS LAST LIMIT 3;

-- name: union_with_constants
SELECT 't' AS source, k FROM t UNION ALL SELECT 'u', k FROM u;

-- name: intersect
SELECT k, g FROM t INTERSECT SELECT k, g FROM u;

-- name: intersect_all
SELECT k FROM t INTERSECT ALL SELECT k FROM (SELECT k FROM t UNION ALL SELECT k FROM u);

-- name: except_distinct
SELECT k FROM t EXCEPT DISTINCT SELECT k FROM u;

-- name: except_all
SELECT k FROM t EXCEPT ALL SELECT k FROM u;

-- name: minus
SELECT g FROM u MINUS SELECT g FROM t;

-- name: minus_all
SELECT g FROM t MINUS ALL SELECT g FROM u;

-- name: sets_in_parentheses
(SELECT k FROM t UNION SELECT k FROM u) EXCEPT (SELECT k FROM c INTERSECT SELECT k FROM u);

-- name: sets_with_precedence
SELECT k FROM t UNION SELECT k FROM u INTERSECT SELECT k FROM c;

-- name: sets_of_groups
SELECT k, count(*) AS n FROM t GROUP BY k EXCEPT SELECT k, count(*) FROM c GROUP BY k;

-- name: sets_in_a_derived_table
SELECT k, sum(x) AS total FROM (SELECT k, v AS x FROM t UNION ALL SELECT k, w FROM u) GROUP BY k;

-- name: sets_of_nested_types
SELECT tags FROM t UNION SELECT array(g) FROM u;

-- name: sets_of_structs
SELECT st FROM t EXCEPT SELECT named_struct('a', k, 'b', g) FROM u;

-- name: union_of_dates_and_timestamps
SELECT day AS x FROM t UNION ALL SELECT ts FROM t;
