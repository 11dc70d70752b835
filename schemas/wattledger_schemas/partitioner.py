"""Which partition a key lives in. Computed here and passed explicitly: client libraries hash differently."""

from zlib import crc32


def partition_for(key: str, partitions: int) -> int:
    """CRC-32 of the UTF-8 key, modulo the partition count. Never changes: a change would move nodes."""
    return crc32(key.encode()) % partitions


def job_key(cluster: str, job: str) -> str:
    """Key of a job's events in `job-events`."""
    return f"{cluster}/{job}"


def tenant_cost_key(tenant: str, node: str) -> str:
    """Key in `tenant-cost`: the tenant, or for a reserved name the name and node, so that no partition is hot."""
    return f"{tenant}/{node}" if tenant.startswith("__") and tenant.endswith("__") else tenant
