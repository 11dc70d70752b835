"""The kubelet's pod-resources messages (v1), built at run time from a table, as podresources.proto has them."""

from dataclasses import dataclass
from typing import Any

LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"

FIELDS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "ListPodResourcesRequest": (),
    "ListPodResourcesResponse": (("pod_resources", 1, "*PodResources"),),
    "AllocatableResourcesRequest": (),
    "AllocatableResourcesResponse": (
        ("devices", 1, "*ContainerDevices"),
        ("cpu_ids", 2, "*int64"),
        ("memory", 3, "*ContainerMemory"),
    ),
    "PodResources": (
        ("name", 1, "string"),
        ("namespace", 2, "string"),
        ("containers", 3, "*ContainerResources"),
        ("cpu_ids", 4, "*int64"),
        ("memory", 5, "*ContainerMemory"),
    ),
    "ContainerResources": (
        ("name", 1, "string"),
        ("devices", 2, "*ContainerDevices"),
        ("cpu_ids", 3, "*int64"),
        ("memory", 4, "*ContainerMemory"),
        ("dynamic_resources", 5, "*DynamicResource"),
    ),
    "ContainerDevices": (("resource_name", 1, "string"), ("device_ids", 2, "*string")),
    "ContainerMemory": (("memory_type", 1, "string"), ("size", 2, "uint64")),
    "DynamicResource": (
        ("claim_name", 2, "string"),
        ("claim_namespace", 3, "string"),
        ("claim_resources", 4, "*ClaimResource"),
    ),
    "ClaimResource": (
        ("cdi_devices", 1, "*CDIDevice"),
        ("driver_name", 2, "string"),
        ("pool_name", 3, "string"),
        ("device_name", 4, "string"),
        ("share_id", 5, "string"),
    ),
    "CDIDevice": (("name", 1, "string"),),
}
"""Fields of each message: name, number, type; `*` repeated."""


@dataclass(frozen=True, slots=True)
class PodResourcesMessages:
    """Message classes of protobuf, whose fields only the run time knows."""

    list_request: Any
    list_response: Any
    allocatable_request: Any
    allocatable_response: Any


def podresources_messages() -> PodResourcesMessages:
    """Builds the classes in a pool of their own: another library may have registered the kubelet's file too.

    Raises ImportError where protobuf is not installed.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package="v1", syntax="proto3")
    scalars = {
        "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
        "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
        "uint64": descriptor_pb2.FieldDescriptorProto.TYPE_UINT64,
    }
    for message, fields in FIELDS.items():
        described = file.message_type.add(name=message)
        for name, number, kind in fields:
            field = described.field.add(name=name, number=number)
            repeated = kind.startswith("*")
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            bare = kind.removeprefix("*")
            if bare in scalars:
                field.type = scalars[bare]
            else:
                field.type = field.TYPE_MESSAGE
                field.type_name = f".v1.{bare}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"v1.{name}")) for name in FIELDS}
    return PodResourcesMessages(
        made["ListPodResourcesRequest"],
        made["ListPodResourcesResponse"],
        made["AllocatableResourcesRequest"],
        made["AllocatableResourcesResponse"],
    )
