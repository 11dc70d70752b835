"""Probes: what reads devices. One file each behind one protocol (`probe`); values only (`reading`, `device`)."""
