"""What the errors of a Redis or Valkey server mean to the user.

A message names the server by its location, which has no user and no password in it. Words
of the server are repeated only where they are known to hold no argument of ours.
"""

from __future__ import annotations

import redis.exceptions as driver

from ..core.errors import (
    AccessDenied,
    ConfigError,
    ReconcileError,
    StoreUnreachable,
    StoreUnusable,
)

_TLS = ("rediss", "valkeys")
_NOT_NOW = {
    "OOM": ("is out of memory and takes no writes", "free memory, or raise maxmemory"),
    "READONLY": (
        "is a read-only replica",
        "name the primary in [store] url, or let sentinels say which it is: "
        "redis+sentinel://HOST:26379/SERVICE",
    ),
    "MISCONF": (
        "takes no writes, because it could not save to its disk",
        "see its log; free space on its disk",
    ),
    "NOREPLICAS": (
        "takes no writes, because it has fewer replicas than min-replicas-to-write",
        "bring its replicas back",
    ),
    "MASTERDOWN": ("is a replica that has lost its primary", "bring the primary back"),
    "CLUSTERDOWN": ("is part of a cluster that is down", "see: redis-cli cluster info"),
    "TRYAGAIN": ("is moving the keys of this job to another node", "try again"),
    "LOADING": ("is still loading its data", "try again"),
    "BUSY": ("is busy with a script of somebody else", "see: redis-cli script kill"),
    "UNBLOCKED": ("has become a replica", "try again"),
}
"""Answers of a server that will be able to, one day; with what to do about them."""


def refusal(error: driver.RedisError, location: str) -> ReconcileError:
    """What an error means. One that can only be a mistake of ours is raised as it is."""
    code = _code(error)
    if code in _NOT_NOW:
        text, hint = _NOT_NOW[code]
        return StoreUnreachable(f"the store {location} {text}", hint=hint)
    if code == "NOPERM" or "ACL failure" in str(error):
        return AccessDenied(
            f"the store {location} does not let this user do what a store needs",
            hint="see which command or key it was: redis-cli acl log; all that are needed are "
            "listed in stores/redis.py",
        )
    if isinstance(error, driver.AuthenticationError | driver.AuthenticationWrongNumberOfArgsError):
        return AccessDenied(
            f"the store {location} refuses this user or password",
            hint="check the user and the password in [store] url",
        )
    if isinstance(error, driver.TimeoutError):
        return StoreUnreachable(
            f"the store {location} did not answer in time",
            hint="check the server and the network"
            + (", and that it speaks TLS at this port" if location.startswith(_TLS) else ""),
        )
    if isinstance(error, driver.ConnectionError):
        return _no_connection(error, location)
    return _answered(error, code, location)


def is_unknown_command(error: driver.ResponseError) -> bool:
    """Whether the server does not know what it was asked."""
    return "unknown command" in str(error)


def no_sentinels(location: str) -> ConfigError:
    """Whoever answers at the address of sentinels is none."""
    return ConfigError(
        f"[store] url: what answers at {location} is no sentinel",
        hint="name the sentinels (usually port 26379), or, for a server that they do not watch, "
        "write redis://HOST:6379/0",
    )


def _code(error: driver.RedisError) -> str:
    """The first word of the server's answer, which redis-py takes off the errors it knows."""
    return error.status_code or str(error).partition(" ")[0]


def _no_connection(error: driver.ConnectionError, location: str) -> ReconcileError:
    from redis.sentinel import MasterNotFoundError

    words = str(error)
    if isinstance(error, MasterNotFoundError):
        return StoreUnreachable(
            f"the store {location} cannot be reached: no sentinel that answers knows its primary",
            hint="check that the sentinels run, and the name of the service in [store] url",
        )
    if location.startswith(_TLS) and (found := _about_certificates(error, location)):
        return found
    if isinstance(error, driver.MaxConnectionsError) or "max number of clients" in words:
        return StoreUnreachable(
            f"the store {location} has no connection left", hint="raise its maxclients"
        )
    return StoreUnreachable(
        f"the store {location} cannot be reached ({_reason(error)})",
        hint="check that the server runs, and the address in [store] url (rediss:// where it "
        "speaks TLS)",
    )


def _about_certificates(error: BaseException, location: str) -> ReconcileError | None:
    """What is wrong with a certificate: the server's, or one of our files; None where it is
    something else."""
    words, cause = str(error), _innermost(error)
    if "CERTIFICATE_VERIFY_FAILED" in words:
        if "mismatch" in words:
            return ConfigError(
                f"[store] url: the certificate of the store {location} is for another host",
                hint="name the server in [store] url as its certificate does",
            )
        return ConfigError(
            f"[store] url: the certificate of the store {location} is not trusted",
            hint="name who signed it: ?ca=FILE behind [store] url",
        )
    if "CERTIFICATE_REQUIRED" in words or "ALERT_HANDSHAKE_FAILURE" in words:
        return AccessDenied(
            f"the store {location} asks for a certificate of ours",
            hint="name the files of one and its key, by the options cert and key of [store] url",
        )
    is_file = isinstance(cause, FileNotFoundError | PermissionError | IsADirectoryError)
    if is_file or getattr(cause, "library", "") in ("X509", "PEM") or "PEM lib" in words:
        return ConfigError(
            f"[store] url: a file that is named for the certificates of the store {location} "
            f"cannot be used ({_reason(error)})",
            hint="look at ?ca=, ?cert= and ?key= behind [store] url: PEM files that this user "
            "may read, and the key of that certificate",
        )
    return None


def _innermost(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _reason(error: BaseException) -> str:
    """The innermost cause in the words of the operating system."""
    error = _innermost(error)
    if reason := getattr(error, "reason", None):  # of a library for TLS: NO_SUCH_THING
        return str(reason).lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "the connection was lost" if isinstance(error, driver.RedisError) else str(error)


def _answered(error: driver.RedisError, code: str, location: str) -> ReconcileError:
    words = str(error)
    if isinstance(error, driver.InvalidResponse):
        return StoreUnreachable(
            f"what answers at the address of the store {location} is no Redis or Valkey server",
            hint="check host and port in [store] url",
        )
    if code == "WRONGTYPE" or "script: " in words or "user_script" in words:
        return StoreUnusable(
            f"the store {location} is damaged: one of its keys is not what it should be "
            f"({_first_words(words)})",
            hint="restore it from a copy, or name another prefix in [store] url: a new store "
            "is created and goes on from what the target knows",
        )
    if "DB index" in words or "SELECT is not allowed" in words:
        return ConfigError(
            f"[store] url: the server has no such database as {location}",
            hint="a cluster has database 0 only; others as many as its `databases` says",
        )
    if words.startswith("unknown command"):
        return StoreUnusable(
            f"the store {location} does not know a command that is needed ({_first_words(words)})",
            hint="Redis 7 or Valkey is needed, with EVAL and EVALSHA not renamed",
        )
    if code == "DENIED":
        return AccessDenied(
            f"the store {location} is in protected mode and takes no calls from other hosts",
            hint="give it a password, see its protected-mode",
        )
    raise error


def _first_words(text: str) -> str:
    """What the server says, without the script's place and the arguments of a command."""
    for end in ("\n", "script: ", ", with args"):
        text = text.partition(end)[0]
    return text.strip(" ,")[:100]
