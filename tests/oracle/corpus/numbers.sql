-- Mathematical functions, family by family.

-- name: number_signs
SELECT id, abs(-v) AS a, sign(v - 8) AS b, signum(v) AS c, negative(m) AS e FROM t;

-- name: number_rounding
SELECT id, round(m, 1) AS a, round(v, -1) AS b, bround(m, 1) AS c, ceil(m) AS e, ceiling(d) AS f, floor(m) AS h, rint(m) AS i, ceil(m, 1) AS j, floor(m, 1) AS l FROM t WHERE NOT isnan(d);

-- name: number_roots_and_powers
SELECT id, sqrt(v) AS a, cbrt(v) AS b, power(v, 2) AS c, pow(2, k) AS e, exp(k) AS f, expm1(k) AS h FROM t;

-- name: number_logarithms
SELECT id, ln(v) AS a, log(2, v) AS b, log10(v) AS c, log2(v) AS e, log1p(v) AS f, log(v) AS h FROM t;

-- name: number_trigonometry
SELECT id, sin(v) AS a, cos(v) AS b, tan(v) AS c, cot(v) AS e, sec(v) AS f, csc(v) AS h, asin(0.5) AS i, acos(0.5) AS j, atan(v) AS l, atan2(v, k) AS o FROM t;

-- name: number_hyperbolics
SELECT id, sinh(k) AS a, cosh(k) AS b, tanh(k) AS c, asinh(k) AS e, acosh(k) AS f, atanh(0.5) AS h FROM t;

-- name: number_angles
SELECT id, degrees(k) AS a, radians(v) AS b, pi() AS c, e() AS f, hypot(v, k) AS h FROM t;

-- name: number_bases
SELECT id, bin(v) AS a, hex(v) AS b, conv(v, 10, 16) AS c, conv('ff', 16, 10) AS e, unhex('0A') AS f FROM t;

-- name: number_division
SELECT id, try_divide(v, k - 1) AS a, try_mod(v, k - 1) AS b, v % 7 AS c, pmod(v, 7) AS e, div(v, 3) AS f FROM t;

-- name: number_arithmetic_that_does_not_fail
SELECT id, try_add(v, 2147483647) AS a, try_subtract(v, 5) AS b, try_multiply(v, 1000000000) AS c FROM t;

-- name: number_extremes
SELECT id, greatest(v, k, 3) AS a, least(v, k, 3) AS b, greatest(d, 1.0) AS c, least(g, 'b') AS e FROM t;

-- name: number_factorial
SELECT id, factorial(k) AS a, factorial(25) AS b FROM t;

-- name: number_buckets
SELECT id, width_bucket(v, 0, 20, 4) AS a, width_bucket(d, 0.0, 5.0, 5) AS b FROM t;

-- name: number_nan
SELECT id, nanvl(d, -1) AS a, isnan(d) AS b, d = CAST('NaN' AS DOUBLE) AS c, d > 1e300 AS e FROM t;

-- name: number_decimals
SELECT id, m * 1.5 AS a, m + CAST(1 AS DECIMAL(20, 5)) AS b, CAST(m AS DECIMAL(6, 1)) AS c, m / 7 AS e, m % 1 AS f, CAST(m AS DECIMAL(38, 10)) AS h FROM t;

-- name: number_decimal_aggregates
SELECT g, sum(m) AS a, avg(m) AS b, max(m * m) AS c, sum(m * 100) AS e FROM t GROUP BY g;

-- name: number_hashes
SELECT id, hash(v, g) AS a, xxhash64(v, g) AS b, crc32(g) AS c FROM t;

-- name: number_digests
SELECT id, md5(g) AS a, sha1(g) AS b, sha(g) AS c, sha2(g, 256) AS e, sha2(g, 512) AS f FROM t;

-- name: number_uniform_of_a_seed
SELECT id, uniform(1, 1, 0) AS a FROM t;

-- name: number_typed
SELECT id, typeof(v) AS a, typeof(m * m) AS b, typeof(d) AS c, typeof(v / 2) AS e FROM t;
