"""A client of Redis and Valkey for a store: the calls of many tasks over one connection, pipelined by themselves."""

from tenure.stores.redis.client.client import Client
from tenure.stores.redis.client.connection import Connection, connect
from tenure.stores.redis.client.settings import ClientSettings

__all__ = ["Client", "ClientSettings", "Connection", "connect"]
