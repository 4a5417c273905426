-- Operators.

-- name: arithmetic_operators
SELECT id, v + 1 AS a, v - k AS b, v * 2 AS c, v / 4 AS d, v % 3 AS e, v DIV 3 AS f, -v AS h, +v AS i FROM t;

-- name: arithmetic_of_mixed_types
SELECT id, v + m AS a, m * m AS b, v + d AS c, m / 3 AS e, CAST(1 AS TINYINT) + CAST(2 AS SMALLINT) AS f FROM t;

-- name: comparison_operators
SELECT id, v = 10 AS a, v == 10 AS b, v <> 10 AS c, v != 10 AS d, v < 10 AS e, v <= 10 AS f, v > 10 AS h, v >= 10 AS i FROM t;

-- name: null_safe_comparison
SELECT id, v <=> NULL AS a, k <=> 1 AS b, equal_null(g, 'a') AS c FROM t;

-- name: distinct_from
SELECT id, k IS DISTINCT FROM 1 AS a, g IS NOT DISTINCT FROM NULL AS b FROM t;

-- name: logical_operators
SELECT id, ok AND v > 5 AS a, ok OR v > 5 AS b, NOT ok AS c, ! ok AS d FROM t;

-- name: truth_predicates
SELECT id, ok IS TRUE AS a, ok IS NOT TRUE AS b, ok IS FALSE AS c, ok IS NOT FALSE AS d, ok IS UNKNOWN AS e, ok IS NOT UNKNOWN AS f FROM t;

-- name: null_predicates
SELECT id, v IS NULL AS a, v IS NOT NULL AS b, isnull(g) AS c, isnotnull(g) AS e, isnan(d) AS f FROM t;

-- name: bitwise_operators
SELECT id, v & 6 AS a, v | 1 AS b, v ^ 3 AS c, ~v AS d FROM t;

-- name: shift_operators
SELECT id, v << 1 AS a, v >> 1 AS b, v >>> 1 AS c, shiftleft(v, 2) AS d, shiftright(v, 2) AS e, shiftrightunsigned(v, 2) AS f FROM t;

-- name: bitwise_functions
SELECT id, bit_count(v) AS a, bit_get(v, 1) AS b, getbit(v, 0) AS c FROM t;

-- name: concatenation_operator
SELECT id, g || '-' || v AS a, tags || array('end') AS b FROM t;

-- name: between_predicate
SELECT id, v BETWEEN 5 AND 10 AS a, v NOT BETWEEN 5 AND 10 AS b, g BETWEEN 'a' AND 'b' AS c FROM t;

-- name: between_symmetric_by_hand
SELECT id FROM t WHERE v BETWEEN least(20, 5) AND greatest(20, 5);

-- name: in_list
SELECT id, k IN (1, 2) AS a, k NOT IN (1, 2) AS b, g IN ('a', NULL) AS c, (k, g) IN ((1, 'a'), (2, 'b')) AS d FROM t;

-- name: like_predicate
SELECT k, note LIKE 'First%' AS a, note NOT LIKE '%note' AS b, note LIKE '_t%' AS c, note LIKE 'it\'_' AS d FROM c;

-- name: like_with_escape
SELECT k FROM c WHERE concat(note, '%') LIKE '%/%' ESCAPE '/';

-- name: ilike_predicate
SELECT k, note ILIKE 'first%' AS a, note NOT ILIKE 'FIRST%' AS b FROM c;

-- name: rlike_predicate
SELECT k, note RLIKE '^[Ff]' AS a, note REGEXP 'note$' AS b, regexp_like(note, 't') AS c, note NOT RLIKE 'z' AS d FROM c;

-- name: like_all
SELECT k, note LIKE ALL ('%o%', '%e') AS a, note NOT LIKE ALL ('%x%', '%y%') AS b FROM c;

-- name: like_some
SELECT k FROM c WHERE note LIKE SOME ('late', '%FIRST%') OR note NOT LIKE ANY ('%i%', '%a%');

-- name: ilike_any
SELECT k FROM c WHERE note ILIKE ANY ('first%', 'LATE');

-- name: casts
SELECT id, CAST(v AS STRING) AS a, CAST('12' AS INT) AS b, CAST(m AS INT) AS c, CAST(ok AS INT) AS d, CAST(day AS TIMESTAMP) AS e, CAST(v AS DECIMAL(10, 3)) AS f, CAST(d AS FLOAT) AS h FROM t;

-- name: casts_with_colons
SELECT id, v::string AS a, '7'::bigint + 1 AS b, ts::date AS c FROM t;

-- name: casts_that_do_not_fail
SELECT k, try_cast(note AS INT) AS a, try_cast('1.5' AS DOUBLE) AS b, try_cast('2024-13-01' AS DATE) AS c FROM c;

-- name: casts_by_type_functions
SELECT id, string(v) AS a, int(m) AS b, double(v) AS c, boolean('yes') AS e, bigint(v) AS f, date('2024-01-02') AS h, tinyint(1) AS i, float(v) AS j FROM t;

-- name: casts_of_nested_values
SELECT id, CAST(tags AS STRING) AS a, CAST(st AS STRUCT<x: BIGINT, y: STRING>) AS b, CAST(array(v) AS ARRAY<STRING>) AS c, CAST(map('a', v) AS MAP<STRING, DOUBLE>) AS e FROM t;

-- name: case_with_conditions
SELECT id, CASE WHEN v > 15 THEN 'high' WHEN v > 5 THEN 'middle' WHEN v IS NULL THEN NULL ELSE 'low' END AS a FROM t;

-- name: case_of_a_value
SELECT id, CASE g WHEN 'a' THEN 1 WHEN 'b' THEN 2 END AS a FROM t;

-- name: case_in_case
SELECT id, CASE WHEN ok THEN CASE k WHEN 1 THEN 'one' ELSE 'other' END ELSE 'not ok' END AS a FROM t;

-- name: array_access
SELECT id, get(tags, 0) AS a, try_element_at(tags, 2) AS b, array(v, k, 3)[2] AS c, array(1, 2)[0] AS d FROM t;

-- name: map_access
SELECT id, map('a', v, 'b', k)['b'] AS a, map(1, g)[1] AS b, try_element_at(map('a', 1), g) AS c FROM t;

-- name: struct_access
SELECT id, st.a AS a, t.st.b AS b, struct(v, g).v AS c, named_struct('n', named_struct('x', k)).n.x AS d, array(st).a AS e FROM t;

-- name: operators_as_functions
SELECT id, positive(v) AS a, negative(v) AS b, mod(v, 3) AS c, pmod(-v, 3) AS d, `not`(ok) AS e, `<=>`(k, 1) AS f FROM t;

-- name: comparison_of_nested_values
SELECT id, st = named_struct('a', 1, 'b', 'b1') AS a, tags = array('y') AS b, tags < array('y') AS c FROM t;

-- name: precedence_of_operators
SELECT id, 1 + v * 2 - 3 AS a, NOT ok AND v > 1 OR k = 1 AS b, v & 3 | 4 ^ 1 AS c, - v + 1 AS d FROM t;
