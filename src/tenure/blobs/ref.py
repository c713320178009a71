"""References to blobs: small enough for any payload, enough to find a blob again and to know that it is the same.

A blob lies under (tenant, owner, id). The owner decides how long it lives:

    a job's id              as long as the job's record; gone some time after the job was purged
    until-<15 digits>       until that time, in milliseconds since the Unix epoch
"""

import re

import msgspec

from tenure.domain import names
from tenure.domain.errors import InvalidValue
from tenure.domain.names import Ms

OCTETS = "application/octet-stream"

_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_UNTIL = re.compile(r"until-([0-9]{15})", re.ASCII)
_CONTENT_TYPE = re.compile(r"[a-z0-9.+-]{1,64}/[a-z0-9.+-]{1,64}(; ?[a-z]+=[A-Za-z0-9.+-]{1,32})?", re.ASCII)


class BlobKey(msgspec.Struct, frozen=True, order=True):
    """Where a blob lies. Valid once made: no part of it can name anything but itself, on any file system."""

    tenant: str
    owner: str
    id: str

    def __post_init__(self) -> None:
        names.tenant_name(self.tenant)
        expiry_of(self.owner)
        _matching("blob id", self.id, _ID, "32 lower-case hexadecimal digits")


class BlobRef(msgspec.Struct, frozen=True, kw_only=True):
    """A blob, as payloads and results carry it. Valid once made, also when it comes from someone else's payload.

    Its id is random: two puts of the same bytes are two blobs, and a key sees two different bodies.
    """

    tenant: str
    owner: str
    """The job it belongs to, or until when it is kept."""
    id: str
    size: int
    sha256: str
    content_type: str = OCTETS

    def __post_init__(self) -> None:
        BlobKey(self.tenant, self.owner, self.id)
        names.integer("blob size", self.size, 0, 1 << 53)
        _matching("sha256", self.sha256, _SHA256, "64 lower-case hexadecimal digits")
        content_type(self.content_type)

    @property
    def key(self) -> BlobKey:
        return BlobKey(self.tenant, self.owner, self.id)


def content_type(value: str) -> str:
    """A media type in lower case, perhaps with one parameter: it may end up in a header."""
    return _matching("content_type", value, _CONTENT_TYPE, "a media type such as text/plain; charset=utf-8")


def owner_until(at: Ms) -> str:
    """The owner of blobs that belong to no job and are kept until then."""
    return f"until-{names.instant('until', at):015d}"


def expiry_of(owner: str) -> Ms | None:
    """Until when blobs of this owner are kept; None when it is a job, which says so itself."""
    found = _UNTIL.fullmatch(owner) if isinstance(owner, str) else None
    if found is not None:
        return int(found[1])
    names.job_id(owner, "owner")
    return None


def _matching(field: str, value: str, pattern: re.Pattern[str], wanted: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidValue(f"{field} {value!r:.80}: give {wanted}")
    return value
