-- Joins of every kind.

-- name: inner_join
SELECT t.id, u.w FROM t INNER JOIN u ON t.k = u.k;

-- name: join_with_further_conditions
SELECT t.id, u.w FROM t JOIN u ON t.k = u.k AND t.g = u.g AND u.w > 50;

-- name: left_join
SELECT t.id, u.w FROM t LEFT OUTER JOIN u ON t.k = u.k;

-- name: left_join_with_condition_of_one_side
SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k AND t.v > 8;

-- name: left_join_then_where
SELECT t.id FROM t LEFT JOIN u ON t.k = u.k WHERE u.k IS NULL;

-- name: right_join
SELECT t.id, u.k, u.w FROM t RIGHT JOIN u ON t.k = u.k;

-- name: full_join
SELECT t.id, u.k, u.w FROM t FULL OUTER JOIN u ON t.k = u.k;

-- name: full_join_on_two_columns
SELECT t.id, u.k AS uk, t.g AS tg, u.g AS ug FROM t FULL JOIN u ON t.k = u.k AND t.g = u.g;

-- name: left_semi_join
SELECT t.id, t.g FROM t LEFT SEMI JOIN u ON t.k = u.k;

-- name: semi_join_with_inequality
SELECT t.id FROM t SEMI JOIN u ON t.k = u.k AND u.w > t.v;

-- name: left_anti_join
SELECT t.id, t.g FROM t LEFT ANTI JOIN u ON t.k = u.k;

-- name: anti_join_with_condition
SELECT t.id FROM t ANTI JOIN u ON t.k = u.k AND u.w > 100;

-- name: cross_join
SELECT t.id, u.k FROM t CROSS JOIN u;

-- name: comma_join
SELECT t.id, u.w FROM t, u WHERE t.k = u.k;

-- name: join_without_condition
SELECT t.id, u.w FROM t JOIN u WHERE t.v < u.w;

-- name: natural_join
SELECT id, k, g, w FROM t NATURAL JOIN u;

-- name: natural_left_join
SELECT id, k, note FROM (SELECT id, k FROM t) NATURAL LEFT JOIN (SELECT k, note FROM c);

-- name: natural_full_join
SELECT k, v, w FROM (SELECT k, v FROM t) NATURAL FULL JOIN (SELECT k, w FROM u);

-- name: join_using
SELECT k, id, w FROM t JOIN u USING (k);

-- name: join_using_two_columns
SELECT k, g, id, w FROM t LEFT JOIN u USING (k, g);

-- name: join_using_star
SELECT * FROM (SELECT k, v FROM t) JOIN (SELECT k, w FROM u) USING (k);

-- name: full_join_using
SELECT k, id, w FROM t FULL JOIN u USING (k);

-- name: right_join_using
SELECT k, t.k AS tk, u.k AS uk FROM t RIGHT JOIN u USING (k);

-- name: semi_join_using
SELECT id, k FROM t LEFT SEMI JOIN u USING (k);

-- name: self_join
SELECT a.id, b.id AS other FROM t a JOIN t b ON a.k = b.k AND a.id < b.id;

-- name: self_join_of_three
SELECT a.k, b.w, c2.w AS w2 FROM u a JOIN u b ON a.k = b.k JOIN u c2 ON b.k = c2.k;

-- name: self_left_join
SELECT a.k, b.k AS before FROM u a LEFT JOIN u b ON b.k = a.k - 1;

-- name: non_equi_join
SELECT t.id, u.k FROM t JOIN u ON t.v < u.k * 10;

-- name: band_join
SELECT t.id, u.k FROM t JOIN u ON t.k BETWEEN u.k - 1 AND u.k + 1;

-- name: non_equi_left_join
SELECT t.id, u.k FROM t LEFT JOIN u ON t.v > u.w;

-- name: non_equi_full_join
SELECT t.id, u.k FROM t FULL JOIN u ON t.id > u.k;

-- name: null_safe_join
SELECT t.id, c.note FROM t JOIN c ON t.k <=> c.k;

-- name: null_safe_left_join
SELECT t.id, u.k FROM t LEFT JOIN u ON t.g <=> u.g;

-- name: join_by_or
SELECT t.id, u.k FROM t JOIN u ON t.k = u.k OR t.g = u.g;

-- name: join_by_expression
SELECT t.id, u.w FROM t JOIN u ON t.k + 4 = u.k AND lower(t.g) < upper(u.g) || 'z';

-- name: join_on_different_types
SELECT t.id, c.note FROM t JOIN c ON t.k + 3 = c.v;

-- name: join_on_constant
SELECT t.id, u.k FROM t LEFT JOIN u ON u.k = 2;

-- name: join_on_true
SELECT t.id, u.k FROM t JOIN u ON TRUE;

-- name: join_of_three_tables
SELECT t.id, u.w, c.note FROM t JOIN u ON t.k = u.k LEFT JOIN c ON u.k = c.k;

-- name: join_of_parenthesised_joins
SELECT t.id, u.w, c.note FROM t LEFT JOIN (u JOIN c ON u.k = c.k) ON t.k = u.k;

-- name: joined_groups
SELECT a.k, a.n, b.total FROM (SELECT k, count(*) AS n FROM t GROUP BY k) a FULL JOIN (SELECT k, sum(v) AS total FROM c GROUP BY k) b ON a.k = b.k;

-- name: grouped_join
SELECT u.g, count(*) AS n, sum(t.v) AS total FROM t JOIN u ON t.k = u.k GROUP BY u.g;

-- name: lateral_subquery
SELECT u.k, x.n FROM u, LATERAL (SELECT count(*) AS n FROM t WHERE t.k = u.k) x;

-- name: lateral_join_with_top
SELECT u.k, x.v FROM u LEFT JOIN LATERAL (SELECT v FROM t WHERE t.k = u.k ORDER BY v DESC NULLS LAST LIMIT 1) x;

-- name: lateral_of_expressions
SELECT t.id, x.twice, x.label FROM t, LATERAL (SELECT t.v * 2 AS twice, concat(t.g, '!') AS label) x;

-- name: lateral_after_lateral
SELECT t.id, y.b FROM t JOIN LATERAL (SELECT t.v + 1 AS a) x JOIN LATERAL (SELECT x.a * 10 AS b) y;

-- name: lateral_view_explode
SELECT id, tag FROM t LATERAL VIEW explode(tags) x AS tag;

-- name: lateral_view_outer
SELECT id, tag FROM t LATERAL VIEW OUTER explode(tags) x AS tag;

-- name: lateral_view_posexplode
SELECT id, at, tag FROM t LATERAL VIEW posexplode(tags) x AS at, tag;

-- name: lateral_views_after_each_other
SELECT id, a, b FROM t LATERAL VIEW explode(tags) x AS a LATERAL VIEW explode(array(a, 'end')) y AS b;

-- name: lateral_view_of_a_map
SELECT id, key, value FROM t LATERAL VIEW explode(map('v', v, 'k', k)) x;

-- name: lateral_view_joined
SELECT t.id, tag, u.w FROM t JOIN u ON t.k = u.k LATERAL VIEW explode(t.tags) x AS tag;

-- name: lateral_view_grouped
SELECT tag, count(*) AS n FROM t LATERAL VIEW explode(tags) x AS tag WHERE tag <> 'z' GROUP BY tag;
