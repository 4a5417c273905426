-- String functions, family by family.

-- name: string_case
SELECT k, upper(note) AS a, ucase(note) AS b, lower(note) AS c, lcase(note) AS d, initcap(note) AS e FROM c;

-- name: string_lengths
SELECT k, length(note) AS a, char_length(note) AS b, character_length(note) AS c, len(note) AS d, octet_length(note) AS e, bit_length(note) AS f FROM c;

-- name: string_concatenation
SELECT k, concat(note, '!', k) AS a, concat_ws('-', note, k, NULL, 'x') AS b, concat_ws(',', array('p', 'q')) AS c FROM c;

-- name: string_parts
SELECT k, substring(note, 2, 3) AS a, substr(note, -2) AS b, left(note, 2) AS c, right(note, 2) AS d, split_part(note, ' ', 1) AS e, substring_index(note, ' ', -1) AS f FROM c;

-- name: string_parts_from_for
SELECT k, substring(note FROM 2 FOR 3) AS a, substr(note FROM 3) AS b FROM c;

-- name: string_trimming
SELECT k, trim(concat('  ', note, ' ')) AS a, ltrim('x', concat('xx', note)) AS b, rtrim(note) AS c, btrim(concat('__', note), '_') AS d, trim(LEADING 'F' FROM note) AS e, trim(TRAILING 'e' FROM note) AS f FROM c;

-- name: string_padding
SELECT k, lpad(note, 6, '.') AS a, rpad(note, 12, '-+') AS b, space(2) AS c, repeat(note, 2) AS d FROM c;

-- name: string_positions
SELECT k, instr(note, 'o') AS a, locate('t', note) AS b, locate('t', note, 6) AS c, position('e', note) AS d, position('n' IN note) AS e, find_in_set('late', 'early,late') AS f FROM c;

-- name: string_tests
SELECT k, contains(note, 'note') AS a, startswith(note, 'F') AS b, endswith(note, 'e') AS c, note = '' AS d FROM c;

-- name: string_replacement
SELECT k, replace(note, 'note', 'line') AS a, translate(note, 'aeiou', '12345') AS b, overlay(note PLACING '__' FROM 2 FOR 1) AS c, overlay(note, 'X', 1) AS d, reverse(note) AS e FROM c;

-- name: string_splitting
SELECT k, split(note, ' ') AS a, split(note, '[oe]', 2) AS b, sentences('One two. Three!') AS c, str_to_map('a:1,b:2') AS d FROM c;

-- name: string_regular_expressions
SELECT k, regexp_extract(note, '([A-Za-z]+) (note)', 2) AS a, regexp_replace(note, '[aeiou]', '*') AS b, regexp_count(note, 't') AS c, regexp_instr(note, 'o') AS d, regexp_substr(note, '[A-Z]+') AS e, regexp_extract_all(note, '([a-z])t', 1) AS f FROM c;

-- name: string_codes
SELECT k, ascii(note) AS a, chr(65 + k) AS b, char(97) AS c, base64(note) AS d, CAST(unbase64('aGk=') AS STRING) AS e, hex(note) AS f, CAST(unhex('6869') AS STRING) AS h FROM c;

-- name: string_encodings
SELECT k, encode(note, 'utf-8') AS a, decode(encode(note, 'utf-16'), 'utf-16') AS b, to_base32(encode(note, 'utf-8')) AS c FROM c;

-- name: string_formatting
SELECT k, format_string('%s has %d', note, v) AS a, printf('%05d', v) AS b, format_number(v * 1234.567, 2) AS c, to_char(v, '99999') AS d, to_varchar(v, '000') AS e FROM c;

-- name: string_to_numbers
SELECT k, to_number('1,234', '9,999') AS a, try_to_number(note, '999') AS b FROM c;

-- name: string_similarity
SELECT k, levenshtein(note, 'First note') AS a, levenshtein(note, 'x', 3) AS b, soundex(note) AS c, jaro_winkler_similarity(note, 'First') AS d FROM c;

-- name: string_masking_and_quoting
SELECT k, mask(note) AS a, mask(note, 'U', 'l', 'd', 'o') AS b, quote(note) AS c, luhn_check('79927398713') AS d FROM c;

-- name: string_choice
SELECT k, elt(1, note, 'b') AS a, elt(2, note, 'b') AS b FROM c;

-- name: string_utf8
SELECT k, is_valid_utf8(note) AS a, make_valid_utf8(note) AS b, validate_utf8(note) AS c, try_validate_utf8(note) AS d FROM c;

-- name: string_urls
SELECT k, parse_url(concat('http://host/p?q=', k), 'QUERY', 'q') AS a, url_encode(note) AS b, url_decode('a%20b') AS c, try_url_decode('%') AS d, try_parse_url('no url', 'HOST') AS e FROM c;

-- name: string_binary
SELECT k, to_binary(note, 'utf-8') AS a, try_to_binary(note, 'hex') AS b, CAST(X'6869' AS STRING) AS c, length(encode(note, 'utf-8')) AS d FROM c;

-- name: string_encryption
SELECT k, CAST(aes_decrypt(aes_encrypt(note, '0000111122223333'), '0000111122223333') AS STRING) AS a, hex(hmac('key', note)) AS b FROM c;

-- name: string_collations
SELECT k, collation(note) AS a, collate(note, 'UNICODE_CI') = 'FIRST NOTE' AS b, 'a' COLLATE UTF8_LCASE = 'A' AS c FROM c;

-- name: string_collated_order
SELECT k, rank() OVER (ORDER BY note COLLATE UNICODE_CI) AS r FROM c;
