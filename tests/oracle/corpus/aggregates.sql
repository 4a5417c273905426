-- Aggregate functions, family by family.

-- name: counts
SELECT k, count(*) AS a, count(v) AS b, count(DISTINCT g) AS c, count(k, v) AS d, count(1) AS e FROM t GROUP BY k;

-- name: count_distinct_of_two
SELECT count(DISTINCT k, g) AS n FROM t;

-- name: count_if_with_condition
SELECT g, count_if(v > 8) AS n, count_if(ok) AS oks FROM t GROUP BY g;

-- name: sums_and_averages
SELECT g, sum(v) AS a, avg(v) AS b, mean(v) AS c, sum(m) AS d, avg(m) AS e FROM t GROUP BY g;

-- name: sums_of_distinct_values
SELECT g, sum(DISTINCT v) AS a, avg(DISTINCT v) AS b FROM t GROUP BY g;

-- name: minima_and_maxima
SELECT k, min(v) AS a, max(g) AS b, min(day) AS c, max(ts) AS d, max(m) AS e, min(ok) AS f FROM t GROUP BY k;

-- name: extremes_of_nested_values
SELECT k, max(st) AS a, min(tags) AS b FROM t GROUP BY k;

-- name: extremes_by_another_column
SELECT g, max_by(v, id) AS a, min_by(v, id) AS b FROM t GROUP BY g;

-- name: aggregates_with_filter
SELECT k, sum(v) FILTER (WHERE ok) AS a, count(*) FILTER (WHERE g = 'a') AS b, count(DISTINCT g) FILTER (WHERE v > 1) AS c FROM t GROUP BY k;

-- name: boolean_aggregates
SELECT k, bool_and(ok) AS a, bool_or(ok) AS b, every(v > 1) AS c, some(v > 8) AS d, any(g = 'a') AS e FROM t GROUP BY k;

-- name: bit_aggregates
SELECT g, bit_and(v) AS a, bit_or(v) AS b, bit_xor(v) AS c FROM t GROUP BY g;

-- name: any_value_of_one
SELECT k, any_value(w) AS a, first(g) AS b, last(g) AS c, first_value(w) AS d, last_value(w) AS e FROM u GROUP BY k;

-- name: any_value_ignoring_nulls
SELECT k, any_value(w, TRUE) AS a, first(w) IGNORE NULLS AS b, last(g, TRUE) AS c FROM u GROUP BY k;

-- name: collected_lists_and_sets
SELECT g, sort_array(collect_list(v)) AS a, sort_array(collect_set(k)) AS b, sort_array(array_agg(DISTINCT v)) AS c FROM t GROUP BY g;

-- name: collected_structs
SELECT k, sort_array(collect_list(named_struct('g', g, 'v', v))) AS a FROM t GROUP BY k;

-- name: collect_union
SELECT k, sort_array(collect_union(tags)) AS a FROM t GROUP BY k;

-- name: listagg_in_order
SELECT k, listagg(g, ',') WITHIN GROUP (ORDER BY g) AS a, string_agg(g) WITHIN GROUP (ORDER BY g DESC) AS b FROM t GROUP BY k;

-- name: listagg_of_distinct_values
SELECT listagg(DISTINCT g, '; ') WITHIN GROUP (ORDER BY g) AS a FROM t;

-- name: variances
SELECT g, stddev(v) AS a, stddev_pop(v) AS b, stddev_samp(v) AS c, std(v) AS d, variance(v) AS e, var_pop(v) AS f, var_samp(v) AS h FROM t GROUP BY g;

-- name: higher_moments
SELECT skewness(v) AS a, kurtosis(v) AS b FROM t;

-- name: correlations
SELECT corr(v, id) AS a, covar_pop(v, id) AS b, covar_samp(v, id) AS c FROM t;

-- name: regressions
SELECT regr_avgx(v, id) AS a, regr_avgy(v, id) AS b, regr_count(v, id) AS c, regr_slope(v, id) AS d, regr_intercept(v, id) AS e, regr_r2(v, id) AS f, regr_sxx(v, id) AS h, regr_sxy(v, id) AS i, regr_syy(v, id) AS j FROM t;

-- name: exact_percentiles
SELECT g, percentile(v, 0.5) AS a, percentile(v, array(0.25, 0.75)) AS b, median(v) AS c FROM t GROUP BY g;

-- name: percentiles_within_group
SELECT g, percentile_cont(0.5) WITHIN GROUP (ORDER BY v) AS a, percentile_disc(0.5) WITHIN GROUP (ORDER BY v DESC) AS b FROM t GROUP BY g;

-- name: approximate_percentiles
SELECT g, approx_percentile(v, 0.5) AS a, percentile_approx(v, array(0.0, 1.0), 100) AS b FROM t GROUP BY g;

-- name: mode_of_one_value
SELECT k, mode(w) AS a FROM u GROUP BY k;

-- name: mode_within_group
SELECT k, mode() WITHIN GROUP (ORDER BY w) AS a, mode(w, TRUE) AS b FROM u GROUP BY k;

-- name: approximate_distinct_counts
SELECT g, approx_count_distinct(k) AS a, approx_count_distinct(v, 0.01) AS b FROM t GROUP BY g;

-- name: histogram_of_few_values
SELECT histogram_numeric(v, 10) AS h FROM c;

-- name: count_min_sketches
SELECT k, count_min_sketch(w, 0.5D, 0.5D, 1) AS a FROM u GROUP BY k;

-- name: hll_sketches_combined
SELECT a.k, hll_sketch_estimate(hll_union(a.s, b.s)) AS n FROM (SELECT k, hll_sketch_agg(v) AS s FROM c GROUP BY k) a JOIN (SELECT k, hll_sketch_agg(w) AS s FROM u GROUP BY k) b ON a.k = b.k;

-- name: theta_sketches
SELECT k, theta_sketch_estimate(theta_sketch_agg(v)) AS n FROM t WHERE v IS NOT NULL GROUP BY k;

-- name: theta_sketches_combined
SELECT theta_sketch_estimate(theta_union_agg(s)) AS a, theta_sketch_estimate(theta_intersection_agg(s)) AS b FROM (SELECT k, theta_sketch_agg(v) AS s FROM t WHERE v IS NOT NULL GROUP BY k);

-- name: kll_sketches
SELECT kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(v), 0.5) AS a, kll_sketch_get_n_bigint(kll_sketch_agg_bigint(v)) AS b FROM c WHERE v IS NOT NULL;

-- name: tuple_sketches
SELECT tuple_sketch_estimate_integer(tuple_sketch_agg_integer(k, v)) AS a FROM t WHERE v IS NOT NULL AND k IS NOT NULL;

-- name: bitmaps
SELECT bitmap_count(bitmap_construct_agg(bitmap_bit_position(id))) AS n FROM t;

-- name: bitmaps_combined
SELECT bitmap_count(bitmap_or_agg(b)) AS a, bitmap_count(bitmap_and_agg(b)) AS d FROM (SELECT k, bitmap_construct_agg(bitmap_bit_position(id)) AS b FROM t GROUP BY k);

-- name: sums_that_do_not_fail
SELECT k, try_sum(v) AS a, try_avg(v) AS b, try_sum(CAST(id AS BIGINT) + 9000000000000000000) AS c FROM t GROUP BY k;

-- name: aggregates_of_expressions
SELECT g, sum(v * 2 + 1) AS a, max(length(g)) AS b, sum(CASE WHEN ok THEN 1 ELSE 0 END) AS c, sum(v) / count(v) AS d FROM t GROUP BY g;

-- name: aggregates_with_several_distincts
SELECT g, count(DISTINCT k) AS a, count(DISTINCT v) AS b, sum(DISTINCT k) AS c FROM t GROUP BY g;

-- name: aggregates_of_intervals
SELECT k, sum(INTERVAL 1 DAY * v) AS a, max(make_ym_interval(0, v)) AS b FROM t GROUP BY k;

-- name: aggregates_nested_in_a_derived_table
SELECT max(n) AS most, avg(total) AS mean_total FROM (SELECT k, count(*) AS n, sum(v) AS total FROM t GROUP BY k);

-- name: approx_top_k_combined
SELECT approx_top_k_estimate(approx_top_k_combine(s, 10), 1) AS top FROM (SELECT g, approx_top_k_accumulate(k) AS s FROM u WHERE k = 2 GROUP BY g);

-- name: vector_aggregates
SELECT g, vector_sum(array(CAST(k AS FLOAT), CAST(id AS FLOAT))) AS a, vector_avg(array(CAST(k AS FLOAT), 1.0F)) AS b FROM t WHERE k IS NOT NULL GROUP BY g;

-- name: grouped_by_nested_values
SELECT tags, st, count(*) AS n FROM t GROUP BY tags, st;

-- name: schema_of_variants
SELECT schema_of_variant_agg(parse_json(concat('{"a": ', k, '}'))) AS s FROM u;

-- name: aggregates_with_quoted_names
SELECT k, `sum`(v) AS s, `max`(g) AS m, `count`(v) AS n, `max_by`(v, id) AS l FROM t GROUP BY k;
