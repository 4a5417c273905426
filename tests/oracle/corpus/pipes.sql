-- Operators of the pipe syntax, one by one.

-- name: pipe_select
FROM t |> SELECT id, v + 1 AS more;

-- name: pipe_extend
FROM u |> EXTEND w * 2 AS twice;

-- name: pipe_set
FROM u |> SET w = coalesce(w, 0), x = 1.5;

-- name: pipe_drop
FROM u |> DROP x, w;

-- name: pipe_as
FROM u |> AS y |> SELECT y.k, y.w;

-- name: pipe_where
FROM t |> WHERE v > 5 |> WHERE k = 1 |> SELECT id;

-- name: pipe_limit
FROM u |> ORDER BY k DESC |> LIMIT 2 |> SELECT k;

-- name: pipe_offset
FROM u |> ORDER BY k |> LIMIT 2 OFFSET 1;

-- name: pipe_aggregate
FROM t |> AGGREGATE sum(v) AS total, count(*) AS n;

-- name: pipe_aggregate_by_group
FROM t |> AGGREGATE count(*) AS n GROUP BY g, k % 2 AS odd;

-- name: pipe_join
FROM t |> AS a |> JOIN u AS b ON a.k = b.k |> SELECT a.id, b.w;

-- name: pipe_left_join_using
FROM t |> LEFT JOIN u USING (k) |> SELECT id, k, w;

-- name: pipe_order_by
FROM t |> ORDER BY id DESC |> SELECT id, g;

-- name: pipe_union
FROM u |> SELECT k |> UNION ALL (SELECT k FROM c);

-- name: pipe_except
FROM u |> SELECT k |> EXCEPT (SELECT k FROM c);

-- name: pipe_intersect
TABLE u |> SELECT k |> INTERSECT (SELECT k FROM t);

-- name: pipe_tablesample
FROM u |> TABLESAMPLE (100 PERCENT) |> SELECT k;

-- name: pipe_pivot
SELECT k, g, v FROM t |> PIVOT (max(v) FOR g IN ('a', 'b'));

-- name: pipe_unpivot
SELECT id, k, v FROM t |> UNPIVOT (value FOR name IN (k, v));

-- name: pipe_after_select
SELECT k, count(*) AS n FROM t GROUP BY k |> WHERE n > 1;

-- name: pipe_window
FROM u |> SELECT k, rank() OVER (ORDER BY k) AS r |> WHERE r <= 2;

