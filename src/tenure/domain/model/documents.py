"""Documents: named bodies with compare-and-set; those of kinds `queue` and `tenant` configure the store itself."""

import msgspec
from msgspec.structs import replace

from tenure.domain.calls import Document, Stored
from tenure.domain.config import QUEUE, TENANT, QueueConfig, QueueRules, TenantConfig, merge
from tenure.domain.errors import InvalidValue, ModeConflict, Refused, StoreFrozen, VersionConflict
from tenure.domain.event import Event
from tenure.domain.model.tables import Lane, Tables
from tenure.domain.model.unit import Unit
from tenure.domain.names import EVERYONE, SYSTEM, Ms
from tenure.domain.states import EventKind, Mode

Config = QueueConfig | TenantConfig


def put(unit: Unit, document: Document, expect: int | None, ttl: Ms | None) -> Stored | Refused:
    """Writes or deletes a document; the same call again answers the same."""
    config = _checked(document, ttl)
    if unit.meta.frozen:
        return StoreFrozen()
    key = (document.tenant, document.kind, document.name)
    current = live(unit.tables.document(key), unit.now)
    version = 0 if current is None else current.version
    same = (None if current is None else current.body) == document.body
    if expect is not None and expect != version and not (same and version in (0, expect + 1)):
        return VersionConflict(version)
    if same and ttl is None and (current is None or current.expires_at is None):
        return Stored(version)
    if document.kind in (QUEUE, TENANT):
        refused = _configure(unit, document, current, config)
        if refused is not None:
            return refused
    if document.body is None:
        unit.documents[key] = None
        return Stored(0)
    version = version if same else version + 1
    expires_at = None if ttl is None else unit.now + ttl
    unit.documents[key] = replace(document, version=version, expires_at=expires_at)
    return Stored(version)


def live(document: Document | None, now: Ms) -> Document | None:
    """A document past its time counts as gone."""
    expired = document is not None and document.expires_at is not None and now >= document.expires_at
    return None if expired else document


def _checked(document: Document, ttl: Ms | None) -> Config | None:
    """The configuration a document carries, None when it carries none. Raises `InvalidValue` for a malformed one."""
    if document.kind not in (QUEUE, TENANT):
        return None
    if ttl is not None:
        raise InvalidValue(f"a document of kind {document.kind!r} can't have a ttl: delete it instead")
    if document.tenant == SYSTEM or (document.kind == TENANT and document.name != document.tenant):
        raise InvalidValue(f"a {document.kind} document of tenant {document.tenant!r} can't be named {document.name!r}")
    return None if document.body is None else parse(document.kind, document.body)


def parse(kind: str, body: bytes) -> Config:
    """A stored configuration."""
    try:
        if kind == QUEUE:
            return msgspec.json.decode(body, type=QueueConfig)
        return msgspec.json.decode(body, type=TenantConfig)
    except (msgspec.DecodeError, InvalidValue) as error:
        raise InvalidValue(f"{kind} configuration: {error}") from error


def _configure(unit: Unit, document: Document, current: Document | None, config: Config | None) -> Refused | None:
    empty: Config = QueueConfig() if document.kind == QUEUE else TenantConfig()
    old = empty if current is None or current.body is None else parse(document.kind, current.body)
    new = config or empty
    if isinstance(old, QueueConfig) and isinstance(new, QueueConfig):
        conflict = _mode_conflict(unit.tables, document, new)
        if conflict is not None:
            return conflict
    _tell(unit, document, old, new)
    return None


def _mode_conflict(tables: Tables, document: Document, new: QueueConfig) -> Refused | None:
    """A mode may change only where no live job would see it change, nor one whose enqueue isn't committed yet."""
    queue = document.name
    for tenant in tables.live_tenants(queue):
        if document.tenant in (EVERYONE, tenant):
            before, after = modes(tables, tenant, (document.tenant, queue), new)
            if after.mode is not before:
                return ModeConflict(before)
    before, after = modes(tables, document.tenant, (document.tenant, queue), new)
    changes = after.mode is not before
    return ModeConflict(before) if changes and tables.arriving((document.tenant, queue)) else None


def modes(tables: Tables, tenant: str, configured: Lane, new: QueueConfig) -> tuple[Mode, QueueRules]:
    """A tenant's mode in a queue before its own or everyone's configuration says something new, and its rules after."""
    own, everyone = configs(tables, tenant, configured[1])
    if tenant == EVERYONE:
        own = None
    after = merge(own, new) if configured[0] == EVERYONE else merge(new, everyone)
    return merge(own, everyone).mode, after


def configs(tables: Tables, tenant: str, queue: str) -> tuple[QueueConfig | None, QueueConfig | None]:
    """What is set for a queue by its tenant, and by everyone's defaults."""
    return _queue_config(tables, tenant, queue), _queue_config(tables, EVERYONE, queue)


def _queue_config(tables: Tables, tenant: str, queue: str) -> QueueConfig | None:
    document = tables.document((tenant, QUEUE, queue))
    config = None if document is None or document.body is None else parse(QUEUE, document.body)
    return config if isinstance(config, QueueConfig) else None


def _tell(unit: Unit, document: Document, old: Config, new: Config) -> None:
    """One event for what changed, one more when that starts or ends a pause."""
    if replace(old, paused=None) != replace(new, paused=None):
        unit.emit(_event(unit, document, EventKind.CONFIGURED))
    if bool(old.paused) != bool(new.paused):
        unit.emit(_event(unit, document, EventKind.PAUSED if new.paused else EventKind.RESUMED))


def _event(unit: Unit, document: Document, kind: EventKind) -> Event:
    return Event(
        tenant=SYSTEM if document.tenant == EVERYONE else document.tenant,
        kind=kind,
        at=unit.now,
        queue=document.name if document.kind == QUEUE else None,
        document=document.kind,
    )
