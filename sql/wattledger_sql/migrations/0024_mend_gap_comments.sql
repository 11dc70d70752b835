-- What a gap record says, in the words of the gap record: its numbers are inclusive at both ends, and its count is the
-- most that it can be. 0023 called to_seq exclusive. No value changes: the rows always held what the records say.
-- statement
ALTER TABLE gaps {on_cluster}
COMMENT COLUMN IF EXISTS topic 'Topic that they were for; empty: not known. ticks and state are no topics: rows of the agent''s own journal, with numbers of their own, and values that it keeps'
-- statement
ALTER TABLE gaps {on_cluster}
COMMENT COLUMN IF EXISTS to_seq 'Sequence number of the last record dropped'
-- statement
ALTER TABLE gaps {on_cluster}
COMMENT COLUMN IF EXISTS record_count 'Number of records dropped, at most: some of a damaged log may have been delivered before. 0: not known how many'
-- statement
ALTER TABLE gaps {on_cluster}
COMMENT COLUMN IF EXISTS from_at 'First moment that they were about, UTC; NULL: unknown'
-- statement
ALTER TABLE gaps {on_cluster}
COMMENT COLUMN IF EXISTS to_at 'Last moment that they were about, UTC; NULL: unknown'
-- statement
ALTER TABLE v_gaps {on_cluster}
COMMENT COLUMN IF EXISTS topic 'Topic that they were for; empty: not known. ticks and state are no topics: rows of the agent''s own journal, with numbers of their own, and values that it keeps'
-- statement
ALTER TABLE v_gaps {on_cluster}
COMMENT COLUMN IF EXISTS to_seq 'Sequence number of the last record dropped'
-- statement
ALTER TABLE v_gaps {on_cluster}
COMMENT COLUMN IF EXISTS record_count 'Number of records dropped, at most: some of a damaged log may have been delivered before. 0: not known how many'
-- statement
ALTER TABLE v_gaps {on_cluster}
COMMENT COLUMN IF EXISTS from_at 'First moment that they were about, UTC; NULL: unknown'
-- statement
ALTER TABLE v_gaps {on_cluster}
COMMENT COLUMN IF EXISTS to_at 'Last moment that they were about, UTC; NULL: unknown'
