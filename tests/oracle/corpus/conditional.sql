-- Conditional and other functions.

-- name: conditional_coalesce
SELECT id, coalesce(v, k, 0) AS a, ifnull(g, '-') AS b, nvl(v, -1) AS c, nvl2(g, 'there', 'not there') AS e FROM t;

-- name: conditional_nullif
SELECT id, nullif(k, 1) AS a, nullifzero(k - 1) AS b, zeroifnull(v) AS c FROM t;

-- name: conditional_if
SELECT id, if(v > 5, 'much', 'little') AS a FROM t;

-- name: conditional_decode
SELECT id, decode(g, 'a', 1, 'b', 2, -1) AS a, decode(k, 1, 'one', NULL, 'none') AS b FROM t;

-- name: conditional_extremes
SELECT id, greatest(v, k) AS a, least(v, k, NULL) AS b FROM t;

-- name: conditional_functions_nested
SELECT id, coalesce(nullif(g, 'a'), if(ok, 'yes', 'no')) AS a FROM t;

-- name: conditional_when
SELECT id, `when`(ok, 1, 0) AS a FROM t;

-- name: conditional_assertion
SELECT id, assert_true(id > 0) IS NULL AS a FROM t;

-- name: conditional_in_groups
SELECT if(v > 8, 'big', 'small') AS size_of_v, count(*) AS n FROM t GROUP BY if(v > 8, 'big', 'small');

-- name: miscellaneous_functions
SELECT id, typeof(g) AS a, java_method('java.lang.Math', 'max', v, 1) AS b, version() IS NOT NULL AS c FROM t WHERE v IS NOT NULL;
