-- Dates, timestamps and intervals.

-- name: date_parts
SELECT id, year(ts) AS a, quarter(ts) AS b, month(ts) AS c, day(ts) AS d, dayofmonth(day) AS e, hour(ts) AS f, minute(ts) AS h, second(ts) AS i, weekofyear(day) AS j, dayofyear(day) AS l, dayofweek(day) AS n, weekday(day) AS o FROM t;

-- name: date_extraction
SELECT id, extract(YEAR FROM ts) AS a, extract(WEEK FROM day) AS b, extract(SECOND FROM ts) AS c, date_part('DOY', ts) AS e, datepart('MONTH', day) AS f, extract(HOUR FROM INTERVAL '1 2:03:04' DAY TO SECOND) AS h FROM t;

-- name: date_names
SELECT id, dayname(day) AS a, monthname(day) AS b FROM t;

-- name: date_arithmetic
SELECT id, date_add(day, 3) AS a, date_sub(day, 3) AS b, datediff(day, DATE '2024-01-01') AS c, date_diff(DATE '2024-12-31', day) AS e, day + 1 AS f, add_months(day, 12) AS h FROM t;

-- name: date_arithmetic_by_unit
SELECT id, dateadd(MONTH, 1, day) AS a, timestampadd(HOUR, 5, ts) AS b, datediff(MINUTE, TIMESTAMP '2024-02-28 00:00:00', ts) AS c, timestampdiff(DAY, TIMESTAMP '2024-01-01', ts) AS e FROM t;

-- name: date_borders
SELECT id, last_day(day) AS a, next_day(day, 'MON') AS b, trunc(day, 'YEAR') AS c, trunc(day, 'WEEK') AS e FROM t;

-- name: date_truncation
SELECT id, date_trunc('DAY', ts) AS a, date_trunc('MINUTE', ts) AS b, date_trunc('QUARTER', ts) AS c FROM t;

-- name: date_months_between
SELECT id, months_between(ts, TIMESTAMP '2023-12-31 00:00:00') AS a, months_between(day, DATE '2024-03-31', FALSE) AS b FROM t;

-- name: date_construction
SELECT id, make_date(2024, k, 1) AS a, make_timestamp(2024, 1, 2, 3, 4, 5.5) AS b, make_timestamp_ntz(2024, 1, k, 0, 0, 0) AS c, make_timestamp_ltz(2024, 1, 2, 3, 4, 5, 'CET') AS e, try_make_timestamp(2024, 13, 1, 0, 0, 0) AS f FROM t;

-- name: date_formatting
SELECT id, date_format(ts, 'yyyy/MM/dd HH:mm') AS a, date_format(day, 'EEE, d MMM yy') AS b, to_char(day, 'yyyyMMdd') AS c, from_unixtime(v, 'yyyy-MM-dd HH:mm:ss') AS e FROM t;

-- name: date_parsing
SELECT id, to_date('2024-02-03') AS a, to_date('03.02.2024', 'dd.MM.yyyy') AS b, to_timestamp('2024-02-03 04:05:06') AS c, to_timestamp('03/02/24', 'dd/MM/yy') AS e, try_to_timestamp(g, 'yyyy') AS f, try_to_date(g) AS h, to_timestamp_ntz('2024-02-03') AS i FROM t;

-- name: date_epochs
SELECT id, unix_timestamp(ts) AS a, to_unix_timestamp('2024-01-01', 'yyyy-MM-dd') AS b, unix_seconds(ts) AS c, unix_millis(ts) AS e, unix_micros(ts) AS f, unix_date(day) AS h FROM t;

-- name: date_from_epochs
SELECT id, timestamp_seconds(v) AS a, timestamp_millis(v) AS b, timestamp_micros(v) AS c, date_from_unix_date(v) AS e, from_unixtime(v) AS f FROM t;

-- name: date_time_zones
SELECT id, from_utc_timestamp(ts, 'Asia/Tokyo') AS a, to_utc_timestamp(ts, 'America/New_York') AS b, convert_timezone('UTC', 'Europe/Berlin', CAST(ts AS TIMESTAMP_NTZ)) AS c FROM t;

-- name: date_time_zone_operator
SELECT id, CAST(ts AS TIMESTAMP_NTZ) AS a, CAST(CAST(ts AS TIMESTAMP_NTZ) AS DATE) AS b, CAST('2024-06-01 12:00:00+02:00' AS TIMESTAMP) AS c FROM t;

-- name: date_comparison
SELECT id, day > DATE '2024-02-28' AS a, ts BETWEEN TIMESTAMP '2024-02-28' AND TIMESTAMP '2024-03-01' AS b, day = '2024-02-29' AS c, ts > day AS d FROM t;

-- name: interval_literals
SELECT id, ts + INTERVAL '1' DAY AS a, ts + INTERVAL 2 HOURS AS b, day - INTERVAL '1-2' YEAR TO MONTH AS c, ts - INTERVAL '1 02:03:04.5' DAY TO SECOND AS e, ts + INTERVAL 1 WEEK AS f FROM t;

-- name: interval_construction
SELECT id, ts + make_dt_interval(1, k, 30) AS a, day + make_ym_interval(1, k) AS b, ts + make_interval(0, 1, 0, k) AS c FROM t;

-- name: interval_multiplication
SELECT id, ts + v * INTERVAL 1 MINUTE AS a, ts - INTERVAL 1 DAY / 2 AS b, ts + abs(INTERVAL '-1' HOUR) AS c FROM t;

-- name: interval_results
SELECT id, INTERVAL '1' DAY * v AS a, make_dt_interval(k) AS b, ts - TIMESTAMP '2024-02-28 00:00:00' > INTERVAL 1 DAY AS c FROM t;

-- name: interval_year_month_results
SELECT id, make_ym_interval(k, 2) AS a, INTERVAL '2' YEAR AS b FROM t;

-- name: tumbling_window_by_key
SELECT k, window.start AS s, window.end AS e, count(*) AS n FROM t GROUP BY k, window(ts, '1 hour');

-- name: tumbling_window_with_offset
SELECT window.start AS s, count(*) AS n FROM t GROUP BY window(ts, '20 minutes', '20 minutes', '5 minutes');

-- name: window_time_of_windows
SELECT window_time(window) AS at, n FROM (SELECT window, count(*) AS n FROM t GROUP BY window(ts, '30 minutes'));

-- name: session_window_with_gap_by_row
SELECT session_window.start AS s, count(*) AS n FROM t GROUP BY session_window(ts, CASE WHEN k = 1 THEN '5 minutes' ELSE '2 hours' END);

-- name: time_buckets
SELECT time_bucket(INTERVAL '15' MINUTE, ts) AS bucket, count(*) AS n FROM t GROUP BY time_bucket(INTERVAL '15' MINUTE, ts);

-- name: grouped_by_month
SELECT date_trunc('MONTH', ts) AS month, count(*) AS n, min(day) AS first_day FROM t GROUP BY date_trunc('MONTH', ts);

-- name: grouped_by_extracted_parts
SELECT year(day) AS y, extract(DAY FROM day) AS d, sum(v) AS total FROM t GROUP BY 1, 2;
