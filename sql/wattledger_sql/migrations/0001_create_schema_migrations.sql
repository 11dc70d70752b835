-- Which migrations have been applied. migrate() runs this file before it looks; it is recorded like any other.
-- Sorted by version: there is one row a migration, and a second run of the same one replaces it.
-- statement
CREATE TABLE IF NOT EXISTS schema_migrations {on_cluster}
(
    version UInt32 COMMENT 'Number of the migration',
    name String COMMENT 'File name of the migration, without its ending',
    checksum FixedString(64) COMMENT 'SHA-256 of the file as released, hex',
    applied_at DateTime64(6, 'UTC') DEFAULT now64(6) COMMENT 'When it was applied, UTC'
)
ENGINE = {replicated}ReplacingMergeTree
ORDER BY version
COMMENT 'Migrations that have been applied, with the checksum of what was run'
