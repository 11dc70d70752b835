-- Revisions of prices with effective periods, as records of the price-book topic.
-- Sorted by tenant first (contract rates are a tenant's own), then kind and price, so that a history is read in one piece.
-- Partitioned by month of the row's own time, never of the insert, so that a row sent again lands where it was.
-- The window only saves work when a block is sent again; the sort key is what makes a replay harmless.
-- fsync: the offset is acknowledged after the insert, so the row must survive a power cut by then.
-- inserted_minmax: the views ask which hours were touched since the last refresh.
-- statement
CREATE TABLE IF NOT EXISTS prices {on_cluster}
(
    price_id String COMMENT 'The price that it is about',
    revision_id String COMMENT 'Identity of the revision',
    origin_partition Int32 COMMENT 'Partition of the price-book record',
    origin_offset Int64 COMMENT 'Offset of the price-book record',
    origin_seq Int32 COMMENT 'Number among those of one record, from 0',
    known_at DateTime64(6, 'UTC') COMMENT 'The last tick above that record, UTC; 1970: none yet',
    kind LowCardinality(String) COMMENT 'compute, energy, rate (what a tenant is billed) or pool',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the effective period, UTC, on the quarter-hour grid',
    end_at Nullable(DateTime64(6, 'UTC')) COMMENT 'End of the effective period, UTC, exclusive; NULL: open',
    rate Decimal(38, 12) COMMENT 'Currency per device-hour, per kWh, or per unit of the driver',
    currency LowCardinality(String) COMMENT 'Currency of the rate',
    site LowCardinality(String) COMMENT 'Site that it is for; empty: all',
    gpu_model LowCardinality(String) COMMENT 'Model that it is for; empty: all',
    tenant_id LowCardinality(String) COMMENT 'Tenant that it is for (rate); empty: all',
    plan LowCardinality(String) COMMENT 'Plan that it is for (rate); empty: all',
    sku LowCardinality(String) COMMENT 'SKU that it is for (rate); empty: all',
    pue Decimal(38, 12) COMMENT 'Power usage effectiveness that energy is multiplied by; 1 when the meter includes it',
    pool_name LowCardinality(String) COMMENT 'Name of the cost pool (pool); empty otherwise',
    driver LowCardinality(String) COMMENT 'What the pool is spread by: installed_gpu_h, held_gpu_h, kwh (pool); empty otherwise',
    marginal Bool COMMENT 'Whether it is paid in cash per use: it counts in the marginal floor',
    author String COMMENT 'Who published it',
    reason String COMMENT 'Why it was published',
    content_hash UInt64 DEFAULT sipHash64(tuple(
        price_id, revision_id, origin_partition, origin_offset, origin_seq, known_at, kind, start_at, end_at, rate,
        currency, site, gpu_model, tenant_id, plan, sku, pue, pool_name, driver, marginal, author, reason
    )) COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount',
    INDEX inserted_minmax inserted_at TYPE minmax GRANULARITY 1
)
ENGINE = {replicated}ReplacingMergeTree
PARTITION BY toYYYYMM(start_at)
PRIMARY KEY (tenant_id, kind, price_id)
ORDER BY (tenant_id, kind, price_id, origin_offset, revision_id, content_hash)
SETTINGS non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1
COMMENT 'Revisions of prices with effective periods, as records of the price-book topic'
-- statement
CREATE VIEW IF NOT EXISTS v_prices {on_cluster}
(
    price_id String COMMENT 'The price that it is about',
    revision_id String COMMENT 'Identity of the revision',
    origin_partition Int32 COMMENT 'Partition of the price-book record',
    origin_offset Int64 COMMENT 'Offset of the price-book record',
    origin_seq Int32 COMMENT 'Number among those of one record, from 0',
    known_at DateTime64(6, 'UTC') COMMENT 'The last tick above that record, UTC; 1970: none yet',
    kind LowCardinality(String) COMMENT 'compute, energy, rate (what a tenant is billed) or pool',
    start_at DateTime64(6, 'UTC') COMMENT 'Start of the effective period, UTC, on the quarter-hour grid',
    end_at Nullable(DateTime64(6, 'UTC')) COMMENT 'End of the effective period, UTC, exclusive; NULL: open',
    rate Decimal(38, 12) COMMENT 'Currency per device-hour, per kWh, or per unit of the driver',
    currency LowCardinality(String) COMMENT 'Currency of the rate',
    site LowCardinality(String) COMMENT 'Site that it is for; empty: all',
    gpu_model LowCardinality(String) COMMENT 'Model that it is for; empty: all',
    tenant_id LowCardinality(String) COMMENT 'Tenant that it is for (rate); empty: all',
    plan LowCardinality(String) COMMENT 'Plan that it is for (rate); empty: all',
    sku LowCardinality(String) COMMENT 'SKU that it is for (rate); empty: all',
    pue Decimal(38, 12) COMMENT 'Power usage effectiveness that energy is multiplied by; 1 when the meter includes it',
    pool_name LowCardinality(String) COMMENT 'Name of the cost pool (pool); empty otherwise',
    driver LowCardinality(String) COMMENT 'What the pool is spread by: installed_gpu_h, held_gpu_h, kwh (pool); empty otherwise',
    marginal Bool COMMENT 'Whether it is paid in cash per use: it counts in the marginal floor',
    author String COMMENT 'Who published it',
    reason String COMMENT 'Why it was published',
    content_hash UInt64 COMMENT 'Hash of every content column: two different rows with one id are both kept, and verify finds them',
    source_partition Int32 COMMENT 'Partition of the Kafka topic that the row was read from; -1: not from Kafka. Not part of the content',
    source_offset Int64 COMMENT 'Offset of the Kafka record that the row was read from; -1: not from Kafka. Not part of the content',
    inserted_at DateTime64(6, 'UTC') COMMENT 'When the server took the row in, UTC. Says which hours to recompute; never part of an amount'
)
AS SELECT
    price_id, revision_id, origin_partition, origin_offset, origin_seq, known_at, kind, start_at, end_at, rate,
    currency, site, gpu_model, tenant_id, plan, sku, pue, pool_name, driver, marginal, author, reason, content_hash,
    source_partition, source_offset, inserted_at
FROM prices FINAL
SETTINGS do_not_merge_across_partitions_select_final = 1
COMMENT 'Revisions of prices with effective periods, as records of the price-book topic. Each row once (FINAL)'
