"""What a store on Redis or Valkey stands on. The store itself isn't there yet."""

from importlib.util import find_spec

from tenure.domain.extras import Extra, needs

if find_spec("hiredis") is None:
    raise ImportError(needs("tenure.stores.redis", Extra.REDIS))
