"""ClickHouse: tables, views, migrations, inserts, named queries, the laws as SQL. No second join or price."""
