"""What becomes of a run that an importer marked: the rule, in words, by mark."""

_UNKNOWN_PART = "which part of the GPU it was is not said: its GPU count is unknown"
MARK_RULES = {
    "array_tasks_cut": "the list of waiting tasks is cut: those that it names count",
    "elapsed_disagrees": "start and end count; where it is an hour, --timezone may be wrong",
    "end_from_elapsed": "its end is its start, elapsed and suspended time together",
    "end_missing": "it ended and nothing says when: it counts as held to the end of the period",
    "end_while_running": "its end counts, though its state says that it runs",
    "gpu_types_disagree": "the types add up to more than the total: of one type the total counts, of several each type",
    "gpus_from_gres_used": "AllocTRES names no GPU: what another column of the row says counts",
    "mig_share_unknown": "which card its MIG profile is of is not said: its GPU count is unknown",
    "mps_share_unknown": _UNKNOWN_PART,
    "nodes_unreadable": "its node list can't be read: its GPUs count, on no machine of the inventory",
    "shard_share_unknown": _UNKNOWN_PART,
    "submit_ambiguous": "it was submitted in an hour that came twice: when is unknown, what it held is not touched",
    "suspended_from_elapsed": "the log has no column Suspended: what its elapsed time leaves out counts as suspended",
    "suspended_too_long": "no more is taken off than the run lasted",
    "tres_cut": "the text of its resources ends in the middle: its GPU count is unknown",
    "unknown_state": "its state is none of SLURM's: its tenant pays for what it held",
}
