"""WattLedger's pure core: sessions, the two meters, pricing, laws and replay. No I/O, no clock, no threads."""
