"""Avro records, topic contracts, partitioning and codec: what crosses the wire. No logic."""

from wattledger_schemas.bad_record import BadRecord
from wattledger_schemas.codec import Codec, Decoded
from wattledger_schemas.contracts import TopicContract, load_contracts
from wattledger_schemas.partitioner import job_key, partition_for, tenant_cost_key

__all__ = [
    "BadRecord", "Codec", "Decoded", "TopicContract", "job_key", "load_contracts", "partition_for", "tenant_cost_key",
]  # fmt: skip
