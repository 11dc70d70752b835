"""Names of MIG profiles, and how many slices a model is cut in: what an exporter's labels tell of an instance."""

import re

_PROFILE = re.compile(r"(?:(?P<compute>[1-7])c\.)?(?P<slices>[1-7])g\.\d{1,3}gb", re.IGNORECASE)
_FOUR = re.compile(r"(?<![A-Z0-9])A30(?![0-9])|RTX[ _-]*PRO[ _-]*6000")
_TWO = re.compile(r"RTX[ _-]*PRO[ _-]*5000")


def instance_profile(profile: str) -> str:
    """The instance's profile where a compute instance in it is named: `1c.3g.20gb` is in a `3g.20gb`."""
    return re.sub(r"(?<![0-9a-z])[1-7]c\.(?=[1-7]g\.)", "", profile, flags=re.IGNORECASE)


def profile_slices(profile: str) -> int | None:
    """Slices of a profile's GPU instance: `1g.5gb`, `1g.10gb+me`, `1c.3g.20gb` (a compute instance in 3 slices), `MIG
    2g.35gb`; None: no profile in it."""
    found = _PROFILE.search(profile)
    return int(found["slices"]) if found else None


def slices_of_model(gpu_model: str) -> int:
    """Compute slices of a device in MIG mode: 4 of an A30 and an RTX PRO 6000, 7 of the large ones."""
    upper = gpu_model.upper()
    return 4 if _FOUR.search(upper) else 2 if _TWO.search(upper) else 7
