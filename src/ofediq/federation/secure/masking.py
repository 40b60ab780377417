"""Keys, masks and sealed shares: X25519, HKDF, AES in counter mode, ChaCha20-Poly1305, all from `cryptography`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ofediq.errors import WireError, extra

Residues = npt.NDArray[np.uint32]

KEY_BYTES = 32


def new_key() -> Any:
    """A private key for agreeing on secrets."""
    return _x25519().X25519PrivateKey.generate()


def restored_key(data: bytes) -> Any:
    """The private key in `data`."""
    return _x25519().X25519PrivateKey.from_private_bytes(data)


def agree(key: Any, public: bytes, purpose: bytes) -> bytes:
    """The secret of two keys for a purpose, 32 bytes: both sides get the same. `WireError` for a bad public key."""
    try:
        shared = key.exchange(_x25519().X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise WireError(f"keys: not a public key ({error})") from None
    hashes = extra("cryptography.hazmat.primitives.hashes", "federation")
    derivation = extra("cryptography.hazmat.primitives.kdf.hkdf", "federation")
    made: bytes = derivation.HKDF(hashes.SHA256(), KEY_BYTES, None, purpose).derive(shared)
    return made


def mask(seed: bytes, length: int, bits: int) -> Residues:
    """`length` numbers below 2^bits that look random to whoever lacks the seed.

    >>> mask(bytes(32), 3, 8).tolist() == mask(bytes(32), 5, 8)[:3].tolist()
    True
    """
    ciphers = extra("cryptography.hazmat.primitives.ciphers", "federation")
    stream = ciphers.Cipher(ciphers.algorithms.AES(seed), ciphers.modes.CTR(bytes(16))).encryptor()
    words = np.frombuffer(stream.update(bytes(4 * length)), "<u4").astype(np.uint32)
    return words & np.uint32(2**bits - 1)


def seal(secret: bytes, message: bytes) -> bytes:
    """`message` for the other owner of `secret`, which must be used once: 16 bytes longer."""
    sealed: bytes = _aead(secret).encrypt(bytes(12), message, None)
    return sealed


def unseal(secret: bytes, sealed: bytes) -> bytes:
    """The inverse of `seal`, or `WireError` if it was made with another secret or changed on the way."""
    try:
        message: bytes = _aead(secret).decrypt(bytes(12), sealed, None)
    except extra("cryptography.exceptions", "federation").InvalidTag:
        raise WireError("shares: a sealed share does not open") from None
    return message


def _aead(secret: bytes) -> Any:
    return extra("cryptography.hazmat.primitives.ciphers.aead", "federation").ChaCha20Poly1305(secret)


def _x25519() -> Any:
    return extra("cryptography.hazmat.primitives.asymmetric.x25519", "federation")
