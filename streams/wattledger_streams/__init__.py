"""The Faust shell round the core: reads topics, calls the core, writes topics and ClickHouse. No rules here."""
