"""Rows of voices and preferences, as the store here reads them. JSON is text, and may be damaged.

A voice is written once, in the transaction that records its recording; only `name` and `retired_at` change.
"""

import msgspec


class VoiceRow(msgspec.Struct, frozen=True):
    """A voice together with the record of its recording."""

    id: str
    """A built-in voice's is derived from its number and recording; any other is new."""
    account_id: str | None
    """The account whose own voice it is; null: everybody's."""
    kind: str
    """shared, official, emotion or own."""
    name: str
    """Set when the voice is uploaded, and replaced when the account renames it."""
    languages: str
    """JSON list of the languages that it was made for; empty: not known."""
    default_parameters: str
    """JSON object of the parameters used where a job gives none."""
    profile: str
    """JSON object for the engine: `style` and `emotion`. Empty: the recording says all."""
    profile_version: str | None
    """Which edition of the profile it is, for evidence; null for uploads."""
    provenance: str | None
    """JSON object that says how the recording was made; null for uploads."""
    blob_id: str
    """Where the recording's bytes are; they were durable before this row was written."""
    duration_ms: int
    """Measured on the recording, as are its rate and channels."""
    sample_rate: int
    """In hertz."""
    channels: int
    """1 or 2."""
    created_at: int
    """When the voice was uploaded or installed."""
    size_bytes: int
    """The recording's length, from its record."""
    sha256: str
    """The recording's digest, from its record."""
    block_crcs: str
    """The recording's checksums by the block, from its record."""


class VoiceName(msgspec.Struct, frozen=True):
    """A voice as people choose it; each field as in `VoiceRow`."""

    id: str
    kind: str
    name: str
    languages: str


class LibraryVoiceRow(msgspec.Struct, frozen=True):
    """A voice in the operator's list; fields without a docstring are as in `VoiceRow`."""

    id: str
    account_name: str | None
    """The account whose own voice it is, by its current name; null: everybody's."""
    kind: str
    name: str
    languages: str
    duration_ms: int
    created_at: int
    retired_at: int | None
    """As in `BuiltInRow`; null for any voice that is not built in."""


class BuiltInRow(msgspec.Struct, frozen=True):
    """A voice that shipped with this program or with an earlier one."""

    id: str
    """Derived from its number in the table and its recording: another recording is another voice."""
    retired_at: int | None
    """Set when a program without the voice starts; null again once one with it starts.
    A retired voice is not listed; jobs may still name it."""


class PreferenceRow(msgspec.Struct, frozen=True):
    """The voice that an account chose for one of its content accounts."""

    content_account: str
    """A name of the account's choice; '' is the general default."""
    voice_id: str
    """The last choice. Deleting the voice removes the row in the same transaction."""
    updated_at: int
    """When the choice was last saved."""
