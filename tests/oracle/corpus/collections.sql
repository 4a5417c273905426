-- Arrays, maps, structs, JSON, CSV, XML and variants.

-- name: array_construction
SELECT id, array(v, k) AS a, CAST(array() AS ARRAY<INT>) AS b, sequence(1, 5, 2) AS c, sequence(DATE '2024-01-01', DATE '2024-01-03') AS e, array_repeat(g, 2) AS f FROM t;

-- name: array_contents
SELECT id, size(tags) AS a, cardinality(tags) AS b, array_size(tags) AS c, array_contains(tags, 'y') AS e, array_position(tags, 'y') AS f, arrays_overlap(tags, array('x')) AS h FROM t;

-- name: array_changes
SELECT id, array_append(tags, 'n') AS a, array_prepend(tags, 'p') AS b, array_insert(tags, 1, 'i') AS c, array_remove(tags, 'y') AS e, array_compact(tags) AS f, array_distinct(array(1, 1, 2)) AS h FROM t;

-- name: array_orders
SELECT id, sort_array(tags) AS a, sort_array(tags, FALSE) AS b, array_sort(tags) AS c, reverse(tags) AS e, array_sort(tags, (x, y) -> CASE WHEN x < y THEN 1 WHEN x > y THEN -1 ELSE 0 END) AS f FROM t WHERE NOT exists(tags, x -> x IS NULL);

-- name: array_sets
SELECT id, array_union(tags, array('x', 'w')) AS a, array_intersect(tags, array('x', 'y')) AS b, array_except(tags, array('x')) AS c FROM t;

-- name: array_parts
SELECT id, slice(tags, 1, 1) AS a, get(tags, 1) AS b, try_element_at(tags, -1) AS c, array_max(tags) AS e, array_min(tags) AS f, array_join(tags, '+', '?') AS h FROM t;

-- name: array_combinations
SELECT id, flatten(array(tags, tags)) AS a, arrays_zip(tags, array(1, 2)) AS b, concat(tags, tags) AS c FROM t;

-- name: lambda_transform
SELECT id, transform(tags, x -> concat(x, g)) AS a, transform(tags, (x, i) -> concat(i, x)) AS b FROM t;

-- name: lambda_filter
SELECT id, filter(tags, x -> x <> 'y') AS a, filter(tags, (x, i) -> i = 0) AS b FROM t;

-- name: lambda_aggregate
SELECT id, aggregate(tags, '', (s, x) -> concat(s, coalesce(x, '_'))) AS a, reduce(array(1, 2, v), 0, (s, x) -> s + x, s -> s * 10) AS b FROM t;

-- name: lambda_predicates
SELECT id, exists(tags, x -> x = 'x') AS a, forall(tags, x -> x > 'a') AS b FROM t;

-- name: lambda_zip
SELECT id, zip_with(tags, array(1, 2), (x, n) -> concat(x, n)) AS a FROM t;

-- name: lambda_of_maps
SELECT id, map_filter(map('a', v, 'b', k), (key, x) -> x > 5) AS a, transform_keys(map('a', v), (key, x) -> upper(key)) AS b, transform_values(map('a', v), (key, x) -> x * 2) AS c, map_zip_with(map('a', 1), map('a', v), (key, x, y) -> x + y) AS e FROM t;

-- name: map_construction
SELECT id, map('v', v, 'k', k) AS a, map_from_arrays(array('p', 'q'), array(v, k)) AS b, map_from_entries(array(struct('e', v))) AS c, map_concat(map('a', 1), map('b', 2)) AS e, str_to_map('x=1;y=2', ';', '=') AS f FROM t;

-- name: map_contents
SELECT id, map_keys(map('v', v)) AS a, map_values(map('v', v)) AS b, map_entries(map('v', v)) AS c, map_contains_key(map('v', v), 'v') AS e, size(map('v', v)) AS f, element_at(map('v', v), 'v') AS h FROM t;

-- name: struct_construction
SELECT id, struct(k, v) AS a, named_struct('x', k, 'y', named_struct('z', g)) AS b, (k, g) AS c FROM t;

-- name: exploded_in_the_list
SELECT id, explode(tags) AS tag FROM t;

-- name: exploded_outer
SELECT id, explode_outer(tags) AS tag FROM t;

-- name: exploded_with_positions
SELECT id, posexplode(tags) AS (at, tag) FROM t;

-- name: exploded_outer_with_positions
SELECT id, posexplode_outer(tags) FROM t;

-- name: exploded_map
SELECT id, explode(map('k', k, 'v', v)) AS (name, value) FROM t;

-- name: inlined_structs
SELECT id, inline(array(st, named_struct('a', 0, 'b', 'zero'))) AS (x, y) FROM t;

-- name: inlined_structs_outer
SELECT id, inline_outer(filter(array(st), s -> s.a > 1)) FROM t;

-- name: stacked
SELECT id, stack(2, 'k', k, 'v', v) AS (name, value) FROM t;

-- name: exploded_and_grouped
SELECT tag, count(*) AS n FROM (SELECT explode(tags) AS tag FROM t) GROUP BY tag;

-- name: json_written
SELECT id, to_json(st) AS a, to_json(named_struct('t', ts, 'd', day), map('timestampFormat', 'yyyy')) AS b, to_json(tags) AS c, to_json(map('a', v)) AS e FROM t;

-- name: json_read
SELECT id, from_json(concat('{"a": ', id, ', "b": "x"}'), 'a INT, b STRING') AS a, from_json('[1, 2]', 'ARRAY<INT>') AS b, from_json('{"x": 1}', 'MAP<STRING, INT>') AS c FROM t;

-- name: json_paths
SELECT id, get_json_object(concat('{"a": [', id, ']}'), '$.a[0]') AS a, json_array_length('[1, 2]') AS b, json_object_keys('{"p": 1}') AS c, schema_of_json('{"a": 1}') AS e FROM t;

-- name: json_tuples
SELECT t.id, j.a, j.b FROM t LATERAL VIEW json_tuple(concat('{"a": ', id, ', "b": 2}'), 'a', 'b') j AS a, b;

-- name: csv_functions
SELECT id, to_csv(struct(k, g)) AS a, from_csv(concat(id, ',x'), 'a INT, b STRING') AS b, schema_of_csv('1,a') AS c FROM t;

-- name: xml_functions
SELECT id, from_xml(concat('<p><a>', id, '</a></p>'), 'a INT') AS a, to_xml(named_struct('a', k)) AS b, schema_of_xml('<p><a>1</a></p>') AS c FROM t;

-- name: xpath_functions
SELECT id, xpath(concat('<a><b>', id, '</b></a>'), 'a/b/text()') AS a, xpath_string('<a><b>x</b></a>', 'a/b') AS b, xpath_int('<a><b>3</b></a>', 'a/b') AS c, xpath_boolean('<a/>', 'a') AS e, xpath_double('<a>1.5</a>', 'a') AS f FROM t;

-- name: variant_paths
SELECT id, variant_get(parse_json(concat('{"a": {"b": ', id, '}}')), '$.a.b', 'int') AS a, parse_json('{"x": [1, 2]}'):x[1]::int AS b, try_variant_get(parse_json('{"x": "s"}'), '$.x', 'int') AS c FROM t;

-- name: variant_properties
SELECT id, is_variant_null(parse_json('null')) AS a, schema_of_variant(parse_json('[1]')) AS b, to_json(parse_json(concat('[', id, ']'))) AS c, to_json(to_variant_object(st)) AS e, try_parse_json('{') IS NULL AS f FROM t;

-- name: variant_changes
SELECT id, to_json(variant_insert(parse_json('{"a": 1}'), '$.b', id)) AS a, to_json(variant_set(parse_json('{"a": 1}'), '$.a', id)) AS b, to_json(variant_delete(parse_json('{"a": 1, "b": 2}'), '$.b')) AS c FROM t;

-- name: variant_exploded
SELECT t.id, e.pos, e.value::int AS value FROM t, LATERAL variant_explode(parse_json(concat('[', id, ', 7]'))) e;

-- name: vector_functions
SELECT id, vector_inner_product(array(1.0F, 2.0F), array(CAST(k AS FLOAT), 1.0F)) AS a, vector_l2_distance(array(1.0F, 2.0F), array(1.0F, 4.0F)) AS b, vector_norm(array(3.0F, 4.0F)) AS c, vector_cosine_similarity(array(1.0F, 0.0F), array(1.0F, 0.0F)) AS e FROM t;
