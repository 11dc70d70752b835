"""Wiring of the watchers: each from its own group of settings."""

from collections.abc import Sequence

from wattledger_agent.clock import Clock
from wattledger_agent.host import Host
from wattledger_agent.settings import AgentSettings
from wattledger_agent.watchers.process_use import SeenOnDevices
from wattledger_agent.watchers.run import Run
from wattledger_agent.watchers.watcher import Watcher


def build_watcher(
    name: str,
    settings: AgentSettings,
    host: Host,
    clock: Clock,
    on_devices: SeenOnDevices,
    recalled: Sequence[Run],
    removes: bool = True,
) -> Watcher:
    """The watcher of a name. `removes`: whether it may remove drop records that it is done with.

    Raises ValueError for settings that contradict each other, WatcherUnavailable where a library is missing.
    """
    if name == "slurm":
        return _slurm(settings, host, clock, removes)
    if name == "kubernetes":
        return _kubernetes(settings, host, clock, recalled)
    from wattledger_agent.watchers.container import ContainerWatcher
    from wattledger_agent.watchers.process import ProcessWatcher
    from wattledger_agent.watchers.process_table import ProcessTable
    from wattledger_agent.watchers.tags import TagRule, Uids

    rule = TagRule(Uids.parse(settings.processes.tag_uids))
    if name == "containers":
        return ContainerWatcher(on_devices, ProcessTable(), settings.cluster, rule)
    return ProcessWatcher(on_devices, ProcessTable(), settings.cluster, rule)


def _slurm(settings: AgentSettings, host: Host, clock: Clock, removes: bool) -> Watcher:
    from wattledger_agent.watchers.slurm import SlurmWatcher
    from wattledger_agent.watchers.slurm_files import SlurmFiles
    from wattledger_agent.watchers.slurm_folder import DropFolder
    from wattledger_agent.watchers.slurm_rest import SlurmRest
    from wattledger_agent.watchers.slurm_site import SlurmSite
    from wattledger_agent.watchers.slurm_socket import SlurmSocket

    slurm = settings.slurm
    site = SlurmSite(
        host.node, slurm.aliases, settings.cluster, slurm.gres_index, slurm.timezone, slurm.comment_tags
    )  # fmt: skip
    readers: list[SlurmFiles | SlurmSocket | SlurmRest] = []
    if slurm.files:
        readers.append(SlurmFiles(slurm.files, site))
    if slurm.socket is not None:
        readers.append(SlurmSocket(slurm.socket, site, frozenset(slurm.socket_uids)))
    if slurm.restd:
        readers.append(SlurmRest(slurm.restd, site, host.node, slurm.jwt_file))
    events = None if slurm.drop_dir is None else DropFolder(slurm.drop_dir, site, removes=removes)
    return SlurmWatcher(site, readers, events, booted_us=clock.wall_us() - clock.boot_us())


def _kubernetes(settings: AgentSettings, host: Host, clock: Clock, recalled: Sequence[Run]) -> Watcher:
    from wattledger_agent.watchers.kube import KubernetesWatcher
    from wattledger_agent.watchers.kube_api import KubeApi
    from wattledger_agent.watchers.kube_pod import TagNames
    from wattledger_agent.watchers.kube_podresources import PodResources

    kube = settings.kubernetes
    api = KubeApi(kube.api_url, clock) if kube.api else None
    return KubernetesWatcher(
        settings.cluster,
        host.node,
        PodResources(kube.pod_resources),
        api,
        tags=TagNames(
            tenant=kube.tenant_label,
            model=kube.model_label,
            plan=kube.plan_label,
            namespaces=frozenset(kube.tag_namespaces) or None,
        ),
        reads_claims=kube.dra,
        shared_by=kube.sharing,
        recalled=[run for run in recalled if run.source == "kubernetes"],
    )
