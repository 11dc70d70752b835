"""Whether a billed line is for GPUs, from its words and its unit."""

import re
from functools import lru_cache

from wattledger_audit.intake.billing_words import any_word, plain_words

_MODELS = (
    "h100|h200|h800|a100|a800|b100|b200|b300|gb200|gb300|gh200|l40s?|a4000|a5000|a6000|a10g|v100|p100|k80|"
    r"mi\d{2,3}[ax]?|rtx(?:[ _-]?\w{4,5})?|geforce|quadro|tesla|dgx|hgx"
)
_SMALL_MODELS = "l4|l20|t4|a2|a10|a16|a30|a40|h20|p4|p40"
_START, _END = "(?<![a-z0-9])", "(?![a-z0-9])"
_SIZE = r"(?:nano|micro|small|medium|\d*x?large|metal)"
_GPU = re.compile(
    "|".join(
        (
            rf"{_START}(?:\d{{1,3}}x?)?v?gpu",
            rf"{_START}(?:\d+x)?(?:{_MODELS})(?:sxm\d?|pcie|nvl|x\d+)?{_END}",
            rf"{_START}(?:p[2-6]\w{{0,3}}|g[3-7]\w{{0,3}})\.{_SIZE}",
            rf"{_START}n[cdv]\d+",
            f"{_START}g2-standard",
        )
    )
)
"""GPUs by word, by model, and by the instance names of AWS, Azure and Google Cloud."""

_SMALL_GPU = re.compile(rf"{_START}(?:\d+x)?(?:{_SMALL_MODELS})(?:x\d+)?{_END}")
_GPU_UNIT = re.compile("(?<![a-z])gpu")
_OTHER_PRODUCT = any_word(
    "storage", r"speicher\w*", "disks?", "volumes?", "snapshots?", "backups?", "blob", "bucket", "nfs", "lustre",
    "bandwidth", "egress", "ingress", "networks?", "networking", r"netzwerk\w*", "traffic", r"data transfer\w*",
    "ip addresses", "public ip", "ipv4", r"load[ -]?balanc\w+", "vpn", "nat gateway", "cdn", "dns", r"support\w*",
    "licen[cs]es?", r"lizenz\w*", "consulting", "professional services", "onboarding", "setup fee", "monitoring",
    "logging",
)  # fmt: skip
_CPU_PRODUCT = re.compile(
    rf"(?<![a-z])(?:v?cpus?|v cpus?|ocpus?|ram|memory)(?![a-z])|{_START}[cmrtxidz]\d[a-z]{{0,4}}\.{_SIZE}"
)


@lru_cache(maxsize=65_536)
def gpu_of(*texts: str, unit: str = "") -> bool | None:
    """True where the words name GPUs, False where they name storage, network, support, licences or CPUs; else None.

    Both at once ("support for H100 nodes") is None, unless the unit itself counts GPUs.
    """
    if _GPU_UNIT.search(unit.casefold()):
        return True
    text = plain_words(*texts, unit)
    other = bool(_OTHER_PRODUCT.search(text))
    if _GPU.search(text):
        return None if other else True
    if other:
        return False
    if _SMALL_GPU.search(text):
        return True
    return False if _CPU_PRODUCT.search(text) else None
