"""Names of parts of a GPU: the share each one is, on the model it is on; what names no GPU is none."""

from fractions import Fraction

import pytest
from wattledger_audit.intake.mig_profile import GpuResource, gpu_resource, mig_share, model_of_product, slices_of_model


@pytest.mark.parametrize(
    ("text", "model", "slices", "of", "hint"),
    [
        ("1g.10gb", "", 1, 7, ""),
        ("MIG 3g.40gb", "", 3, 7, ""),
        ("mig-1g.5gb", "", 1, 7, "A100"),
        ("1g.5gb+me", "", 1, 7, "A100"),
        ("2g.35gb", "", 2, 7, "H200"),
        ("7g.80gb", "", 7, 7, ""),
        ("1g.6gb", "", 1, 4, "A30"),
        ("2g.12gb", "A30", 2, 4, "A30"),
        ("4g.24gb", "NVIDIA A30", 4, 4, "A30"),
        ("4g.96gb", "", 4, 4, "RTX PRO 6000"),
        ("1g.24gb", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 1, 4, ""),
        ("1g.24gb", "NVIDIA H100 NVL", 1, 7, ""),
        ("1g.10gb", "H100", 1, 7, ""),
        ("a100_3g.20gb", "", 3, 7, "a100"),
        ("nvidia_a100_3g.20gb", "", 3, 7, "a100"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "", 1, 7, "H100-80GB-HBM3"),
        ("1c.3g.20gb", "", 1, 7, "A100"),
        ("2G.10GB", "", 2, 7, "A100"),
        ("1g_5gb", "", 1, 7, "A100"),
    ],
)
def test_a_profile_is_its_slices_of_what_its_model_has(text: str, model: str, slices: int, of: int, hint: str) -> None:
    assert mig_share(text, model) == (slices, of, hint)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("A100", ""),
        ("", ""),
        ("11g.5gb", ""),
        ("5g.40gb", ""),
        ("1g.24gb", ""),  # one of 7 or one of 4: only a model tells
        ("7g.40gb", "A30"),  # an A30 has four
        ("3g.20gb", "A30"),
        ("1g.5gbx", ""),
    ],
)
def test_what_is_no_profile_of_the_model_has_no_share(text: str, model: str) -> None:
    assert mig_share(text, model) is None


@pytest.mark.parametrize(
    ("name", "share", "model", "shared"),
    [
        ("nvidia.com/gpu", Fraction(1), "", False),
        ("nvidia_com_gpu", Fraction(1), "", False),
        ("nvidia.com/gpu.shared", Fraction(1), "", True),
        ("nvidia_com_gpu_shared", Fraction(1), "", True),
        ("nvidia.com/mig-1g.5gb", Fraction(1, 7), "A100", False),
        ("nvidia.com/mig-3g.20gb", Fraction(3, 7), "A100", False),
        ("nvidia_com_mig_1g_5gb", Fraction(1, 7), "A100", False),
        ("nvidia_com_mig_3g_20gb", Fraction(3, 7), "A100", False),
        ("nvidia.com/mig-1g.5gb.shared", Fraction(1, 7), "A100", True),
        ("nvidia_com_mig_1g_6gb", Fraction(1, 4), "A30", False),
        ("nvidia_com_mig_1g_10gb_me", Fraction(1, 7), "", False),
        ("amd.com/gpu", Fraction(1), "", False),
        ("amd_com_gpu", Fraction(1), "", False),
        ("amd.com/cpx_nps4", Fraction(1, 8), "", False),
        ("nvidia.com/GA102GL_A10", Fraction(1), "GA102GL_A10", False),  # KubeVirt passthrough
        ("nvidia.com/GRID_T4-1Q", Fraction(1), "GRID_T4-1Q", True),  # vGPU: the share is not in the name
        ("gpu_intel_com_i915", Fraction(1), "", False),
    ],
)
def test_a_resource_is_its_share_of_a_device(name: str, share: Fraction, model: str, shared: bool) -> None:
    found = gpu_resource(name)
    assert found == GpuResource(share.numerator, share.denominator, model, shared)


@pytest.mark.parametrize(
    "name", ["cpu", "memory", "ephemeral_storage", "nvidia.com/gpumem", "nvidia_com_gpucores", "nvidia.com/hostdev", ""]
)
def test_what_counts_no_device_is_no_gpu(name: str) -> None:
    assert gpu_resource(name) is None


@pytest.mark.parametrize(
    ("model", "slices"),
    [
        ("A100", 7), ("NVIDIA A100-SXM4-40GB", 7), ("H100", 7), ("NVIDIA H100 80GB HBM3", 7), ("H200", 7),
        ("NVIDIA B200", 7), ("nvidia-gh200-480gb", 7), ("A30", 4), ("NVIDIA A30", 4), ("L40S", 1),
        ("NVIDIA RTX PRO 6000 Blackwell", 4), ("RTX PRO 5000", 2), ("T4", 1), ("A3000", 1), ("A10", 1), ("", 1),
        ("RTX A3090", 1), ("MI300X", 1), ("a100_sxm4", 7),
    ],
)  # fmt: skip
def test_a_model_has_so_many_slices(model: str, slices: int) -> None:
    assert slices_of_model(model) == slices


@pytest.mark.parametrize(
    ("product", "model"),
    [
        ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-40GB"),
        ("Tesla-T4-SHARED", "Tesla-T4"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "NVIDIA-A100-SXM4-40GB"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED", "NVIDIA-A100-SXM4-40GB"),
    ],
)
def test_a_product_label_gives_the_model(product: str, model: str) -> None:
    assert model_of_product(product) == model
