-- One row a tick of a packed int32 column: its number, and its value or NULL.
-- {column_hex:String} holds the bytes as hex, {ticks:UInt32} how many ticks the record has. For int64 columns read 8 bytes.
SELECT
    number AS tick,
    if(
        bitTest(reinterpretAsUInt8(substring(column, 4 * {ticks:UInt32} + intDiv(number, 8) + 1, 1)), number % 8),
        reinterpretAsInt32(substring(column, 4 * number + 1, 4)),
        NULL
    ) AS value
FROM (SELECT unhex({column_hex:String}) AS column, number FROM numbers({ticks:UInt32}))
ORDER BY tick
