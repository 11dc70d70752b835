-- A sample record sent twice (an agent that was killed before the delivery report sends its log again) lies at two
-- offsets, and its totals are about the same batch: the same row. Where the record lies is no longer part of the
-- content, or such a total would stand twice under one id. Which of the places is kept is a matter of merges: both are
-- true. Rows from before keep the hash that they were given.
-- statement
ALTER TABLE device_totals {on_cluster}
MODIFY COLUMN IF EXISTS content_hash UInt64 DEFAULT sipHash64(tuple(
    total_id, kind, group_start_at, group_end_at, node, device, in_service_us, energy_uj, measured_us, unknown_us,
    sign, entry, of_total_id, cause_id
)) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them'
-- statement
ALTER TABLE device_totals {on_cluster}
COMMENT COLUMN IF EXISTS batch_partition 'Partition of the gpu-samples record that it is about; -1: none. Not part of the content'
-- statement
ALTER TABLE device_totals {on_cluster}
COMMENT COLUMN IF EXISTS batch_offset 'Offset of a gpu-samples record that it is about (a record may have been sent twice); -1: none. Not part of the content'
-- statement
ALTER TABLE v_device_totals {on_cluster}
COMMENT COLUMN IF EXISTS batch_partition 'Partition of the gpu-samples record that it is about; -1: none. Not part of the content'
-- statement
ALTER TABLE v_device_totals {on_cluster}
COMMENT COLUMN IF EXISTS batch_offset 'Offset of a gpu-samples record that it is about (a record may have been sent twice); -1: none. Not part of the content'
