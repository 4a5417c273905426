-- Table-valued functions, samples, PIVOT and UNPIVOT.

-- name: range_of_numbers
SELECT r.id AS n, u.k FROM range(1, 6, 2) r LEFT JOIN u ON r.id = u.k;

-- name: explode_as_table
SELECT t.id, x.col FROM t, LATERAL explode(t.tags) x;

-- name: explode_as_table_with_alias
SELECT t.id, x.tag FROM t CROSS JOIN LATERAL explode(t.tags) AS x (tag);

-- name: explode_outer_as_table
SELECT t.id, x.tag FROM t, LATERAL explode_outer(t.tags) AS x (tag);

-- name: posexplode_as_table
SELECT t.id, x.pos, x.col FROM t, LATERAL posexplode(t.tags) x;

-- name: explode_of_constants
SELECT u.k, x.n FROM u JOIN explode(array(1, 2, 3)) AS x (n) ON u.k = x.n;

-- name: inline_as_table
SELECT t.id, x.a, x.b FROM t, LATERAL inline(array(t.st)) x;

-- name: stack_as_table
SELECT t.id, x.name, x.value FROM t, LATERAL stack(2, 'v', t.v, 'k', t.k) AS x (name, value);

-- name: json_tuple_as_table
SELECT t.id, x.c0 FROM t, LATERAL json_tuple(concat('{"a": ', t.id, '}'), 'a') x;

-- name: sequence_as_table
SELECT u.k, x.n FROM u, LATERAL explode(sequence(1, u.k)) AS x (n);

-- name: sql_keywords
SELECT count(*) > 100 AS many, (SELECT count(*) FROM u) AS n FROM sql_keywords();

-- name: sample_all_rows
SELECT k, w FROM u TABLESAMPLE (100 PERCENT);

-- name: sample_more_rows_than_there_are
SELECT k, w FROM u TABLESAMPLE (1000 ROWS);

-- name: pivot_one
SELECT * FROM (SELECT k, g, v FROM t) PIVOT (sum(v) FOR g IN ('a', 'b'));

-- name: pivot_with_aliases
SELECT * FROM (SELECT k, g, v FROM t) PIVOT (sum(v) AS s, count(v) AS n FOR g IN ('a' AS first_one, 'b' AS second_one));

-- name: pivot_of_two_columns
SELECT * FROM (SELECT g, ok, k, v FROM t) PIVOT (max(v) FOR (g, k) IN (('a', 1) AS a1, ('b', 2) AS b2));

-- name: unpivot_columns
SELECT id, name, value FROM (SELECT id, k, v FROM t) UNPIVOT (value FOR name IN (k, v));

-- name: unpivot_including_nulls
SELECT * FROM (SELECT k, w, CAST(x AS INT) AS x FROM u WHERE NOT isnan(x)) UNPIVOT INCLUDE NULLS (value FOR name IN (w AS weight, x AS extent));

-- name: unpivot_of_pairs
SELECT * FROM (SELECT id, k AS a, v AS b, k AS c, v AS d FROM t) UNPIVOT ((p, q) FOR name IN ((a, b) AS ab, (c, d) AS cd));

-- name: values_as_table
SELECT x.a, count(u.k) AS n FROM VALUES (1, 'p'), (2, 'q') AS x (a, b) LEFT JOIN u ON u.k >= x.a GROUP BY x.a;
