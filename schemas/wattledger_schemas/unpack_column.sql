-- One row a tick of a packed column: its number, and its value or NULL.
-- {column_hex:String} holds the bytes as hex, {ticks:UInt32} how many ticks the record has. The width, 4 bytes (int32) or
-- 8 (int64), follows from the length: the values come first, then a bit a tick that says whether it is valid.
SELECT
    number AS tick,
    if(
        bitTest(reinterpretAsUInt8(substring(column, width * {ticks:UInt32} + intDiv(number, 8) + 1, 1)), number % 8),
        if(
            width = 8,
            reinterpretAsInt64(substring(column, 8 * number + 1, 8)),
            toInt64(reinterpretAsInt32(substring(column, 4 * number + 1, 4)))
        ),
        NULL
    ) AS value
FROM
(
    SELECT
        unhex({column_hex:String}) AS column,
        intDiv(length(column) - intDiv({ticks:UInt32} + 7, 8), {ticks:UInt32}) AS width,
        number
    FROM numbers({ticks:UInt32})
)
ORDER BY tick
