-- Every type as a column of a result.

-- name: type_integers
SELECT id, CAST(k AS TINYINT) AS a, CAST(v AS SMALLINT) AS b, CAST(v AS INT) AS c, CAST(v AS BIGINT) AS d FROM t;

-- name: type_fractions
SELECT id, CAST(d AS FLOAT) AS a, d AS b, CAST(v AS DECIMAL(38, 18)) AS c, CAST(v AS DECIMAL(5)) AS e, CAST('Infinity' AS DOUBLE) AS f FROM t;

-- name: type_boolean
SELECT id, ok AS a, v > 5 AS b FROM t;

-- name: type_string
SELECT id, g AS a, CAST(g AS VARCHAR(10)) AS b, CAST(g AS CHAR(3)) AS c, 'ä€😀' AS e FROM t;

-- name: type_collated_string
SELECT k, note COLLATE UNICODE_CI AS a, CAST(note AS STRING COLLATE UTF8_LCASE) AS b FROM c;

-- name: type_binary
SELECT id, CAST(g AS BINARY) AS a, X'00FF' AS b FROM t;

-- name: type_binary_grouped
SELECT CAST(g AS BINARY) AS b, count(*) AS n FROM t GROUP BY CAST(g AS BINARY);

-- name: type_date
SELECT id, day AS a, DATE '0001-01-01' AS b, DATE '9999-12-31' AS c FROM t;

-- name: type_timestamp
SELECT id, ts AS a, TIMESTAMP '1950-01-01 00:00:00.123456' AS b FROM t;

-- name: type_timestamp_ntz
SELECT id, CAST(ts AS TIMESTAMP_NTZ) AS a, TIMESTAMP_NTZ '2024-01-01 12:00:00' AS b FROM t;

-- name: type_timestamp_ntz_grouped
SELECT CAST(ts AS TIMESTAMP_NTZ) AS a, count(*) AS n FROM t GROUP BY CAST(ts AS TIMESTAMP_NTZ);

-- name: type_interval_day_to_second
SELECT id, INTERVAL '1 02:03:04.567' DAY TO SECOND AS a, INTERVAL '5' MINUTE AS b, INTERVAL 1 HOUR * k AS c FROM t;

-- name: type_interval_year_to_month
SELECT id, INTERVAL '1-6' YEAR TO MONTH AS a, INTERVAL 1 MONTH * k AS b FROM t;

-- name: type_array
SELECT id, tags AS a, array(array(v), array(k)) AS b, array(st) AS c, CAST(array() AS ARRAY<INT>) AS e FROM t;

-- name: type_map
SELECT id, map('v', v) AS a, map(k, tags) AS b, map('x', map('y', g)) AS c FROM t WHERE k IS NOT NULL;

-- name: type_struct
SELECT id, st AS a, struct(tags, st) AS b, named_struct('in', named_struct('m', m)) AS c FROM t;

-- name: type_variant
SELECT id, parse_json(concat('{"id": ', id, '}')) AS a, CAST(v AS VARIANT) AS b FROM t;

-- name: type_null_casts
SELECT id, CAST(NULL AS INT) AS a, CAST(NULL AS ARRAY<STRING>) AS b, CAST(NULL AS STRUCT<x: INT>) AS c FROM t;

-- name: type_coercion_of_branches
SELECT id, CASE WHEN ok THEN v ELSE m END AS a, coalesce(v, d) AS b, if(ok, day, ts) AS c, array(v, m) AS e FROM t;

-- name: type_coercion_of_strings
SELECT id FROM t WHERE v = '10' OR day = '2024-02-28' OR k IN ('3');

-- name: type_names
SELECT id, typeof(tags) AS a, typeof(st) AS b, typeof(ts) AS c, typeof(INTERVAL 1 DAY) AS e, typeof(NULL) AS f FROM t;

-- name: type_geometry_text
SELECT k, hex(st_asbinary(st_geomfromwkb(X'0101000000000000000000F03F0000000000000040'))) AS a FROM u;
