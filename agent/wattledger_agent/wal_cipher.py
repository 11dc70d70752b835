"""Encryption at rest of what the log holds: AES-256-GCM under keys from a file. Knows no tables."""

import binascii
import os
import stat
from base64 import b64decode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

log = structlog.get_logger()
KEY_BYTES = 32
_SALT_BYTES = 16
_NONCE_BYTES = 12
_TAG_BYTES = 16
_RUNS_KEPT = 64
_LABEL = b"wattledger write-ahead log"


class KeyRefused(ValueError):
    """A key file that can't be used: says which file, what was found and what to do."""


def key_id_of(key: bytes) -> str:
    """What names a key in the log: the first 8 bytes, in hex, of a hash that does not give the key away."""
    return sha256(_LABEL + b" key id\0" + key).digest()[:8].hex()


class WalCipher:
    """Seals with the first key, unseals with any (rotation: put the new key first, drop the old one when `wal status`
    names it no more).

    Each opening of a log draws a salt, from which a key of its own is derived (HKDF-SHA256), and numbers what it
    seals under it from 0: no nonce is used twice under one key, whatever is rolled back, restored, or written by
    another node that was given the same key. `bound` ties a value to its row, so that rows can't be exchanged.
    """

    overhead_bytes = _SALT_BYTES + _NONCE_BYTES + _TAG_BYTES

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise KeyRefused(f"give one or more keys of {KEY_BYTES} bytes")
        self._keys = {key_id_of(key): key for key in keys}
        self.key_id = key_id_of(keys[0])
        self._salt = os.urandom(_SALT_BYTES)
        self._sealed = 0
        self._runs: dict[tuple[str, bytes], AESGCM] = {}

    @classmethod
    def from_files(cls, path: Path, *older: Path) -> "WalCipher":
        """Keys of files (see `read_keys`): the first key of `path` is written with, all others only read with. Raises
        KeyRefused."""
        return cls([key for file in (path, *older) for key in read_keys(file)])

    @property
    def key_ids(self) -> frozenset[str]:
        return frozenset(self._keys)

    def seal(self, plain: bytes, bound: bytes) -> bytes:
        """Salt, nonce, ciphertext and tag."""
        nonce = self._sealed.to_bytes(_NONCE_BYTES, "big")
        self._sealed += 1
        return self._salt + nonce + self._run(self.key_id, self._salt).encrypt(nonce, plain, bound)

    def unseal(self, key_id: str, sealed: bytes, bound: bytes) -> bytes | None:
        """What was sealed; None when it was not sealed with this key for this row."""
        from cryptography.exceptions import InvalidTag

        if key_id not in self._keys or len(sealed) < self.overhead_bytes:
            return None
        salt, nonce = sealed[:_SALT_BYTES], sealed[_SALT_BYTES : _SALT_BYTES + _NONCE_BYTES]
        try:
            return self._run(key_id, salt).decrypt(nonce, sealed[_SALT_BYTES + _NONCE_BYTES :], bound)
        except InvalidTag:
            return None

    def _run(self, key_id: str, salt: bytes) -> "AESGCM":
        """The cipher of one opening of a log."""
        found = self._runs.get((key_id, salt))
        if found is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF

            found = AESGCM(HKDF(SHA256(), KEY_BYTES, salt, _LABEL).derive(self._keys[key_id]))
            if len(self._runs) >= _RUNS_KEPT:
                self._runs.clear()
            self._runs[(key_id, salt)] = found
        return found


def read_keys(path: Path) -> list[bytes]:
    """Keys of a file: 32 raw bytes, or text with one key a line in hex or base64, the one to write with first. Empty
    lines and lines that begin with `#` count nothing. Raises KeyRefused; what it says never holds any of the file."""
    try:
        content = path.read_bytes()
        mode = path.stat().st_mode
    except OSError as error:
        raise KeyRefused(f"key file {path} can't be read: {error.strerror}") from error
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        log.warning("wal_key_file_readable_by_others", path=str(path), mode=oct(stat.S_IMODE(mode)))
    if len(content) == KEY_BYTES:
        return [content]
    keys = []
    for number, line in enumerate(content.splitlines(), start=1):
        text = line.strip()
        if text and not text.startswith(b"#"):
            keys.append(_key_of(text, f"{path}, line {number}"))
    if not keys:
        raise KeyRefused(f"key file {path} holds no key: write {KEY_BYTES} random bytes in hex or base64 into it")
    return keys


def _key_of(text: bytes, where: str) -> bytes:
    try:
        key = bytes.fromhex(text.decode()) if len(text) == 2 * KEY_BYTES else b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise KeyRefused(
            f"{where}: {len(text)} characters that are no key of {KEY_BYTES} bytes: write {2 * KEY_BYTES} characters "
            "of hex, or 44 of base64, or a file of exactly 32 raw bytes (`openssl rand -hex 32`)"
        )
    return key
