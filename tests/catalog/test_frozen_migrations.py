"""A released migration never changes: catalogs that were migrated with it would differ from later ones."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import tidemill.catalog.migrations

VERSIONS = Path(next(iter(tidemill.catalog.migrations.__path__))) / "versions"

FROZEN = {
    "0001_foundation.py": "ec66407722f80d921c55983484ccc8d8e3538ff13275bf1be441dcc18887fb31",
    "0002_upkeep.py": "f5af98d1163dac7a0f5e2ab0493f75989c141d953e57ed1098ef4dab7df005de",
    "0003_servers.py": "7078cbb92c3d9b122d6719533eab1f9f4c450038c60742126f8bc078f1f0318a",
    "0004_access.py": "35b515f3c83c3cd1400302f16d2b38772cab4eea1cb114c6c3387a3fc352c88b",
    "0005_promises.py": "cd908f0efe579d1b9e3cf3d5620e128640d39a0a1b3f5b6d8d84f02e5513dfa1",
    "0006_oneshot.py": "f00997bf63607a4db46a238a9ac7f0433f8e96da41dc24974f506a0e5337ff5e",
    "0007_producers.py": "7ab2fd01de42e34b3cf0693592edab6ec1438a04911687a37c8a7cbca8a2e281",
    "0008_pins_and_tallies.py": "342e6d2e4c58ca4bed904a36d31f3b9de09aef728f36a92fd98b2e6323dc8b7a",
    "0009_backfills.py": "19abddbcd8d4ffc2f160c877daa15ffa284bd1b98dc0e528a3e37ec54bf6645d",
    "0010_merging.py": "329e02de14e0ea83aea59359347e177ee93645bdba402ba9a812325d0f59d23e",
    "0011_pinned_blocks.py": "cc03076495bfdc04e7814301c881dec5ddfff333d4b25289948c0bb810883019",
    "0012_edges.py": "e288ca5a79d3c6f25762deb776ec2ed0e63ee708cbb40c85d92f4e22f086f4db",
    "0013_store_ownership.py": "7f99d02b21f94a695890689a34acd696cfc474ba8b33077b02e5822ac3964be3",
    "0014_analyses.py": "986677e68bc0a34e4095b246c2de9f5c647899748cadf922bc23fc7003733e8b",
    "0015_lost_attempts.py": "eb4c07eaf2dcb61a168f267ecfa3f36e0c3849b698e389619a538e2c4871b245",
    "0016_field_names.py": "9a0a14ee96c817992a37b9b66c28c3c907226e3e167047e965980e01483c1263",
    "0017_alarms.py": "4c819112a308ce0fa1ea9db4eff0c7f09b0329b9a8db756aaa47b1800e05169d",
    "0018_block_identities.py": "bb38af2431a0217d84fa802491cb4722be5b88634bb17094a14640665d0b11fa",
    "0019_audit_roles.py": "4cfa7a71e82e3a3e348ef599ded03d44fc76adf8d8a87bd63a96d625cc92119a",
}
"""SHA-256 of each migration's text. A new migration is added here with the commit that adds it; to correct one, add
another after it."""


def test_every_migration_is_unchanged_since_its_release() -> None:
    hashes = {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(VERSIONS.glob("*.py"))}
    changed = [name for name in FROZEN if hashes.get(name, FROZEN[name]) != FROZEN[name]]
    assert not changed, f"{changed} changed after their release; undo that, and add a new migration instead"
    assert hashes.keys() == FROZEN.keys(), "every migration, and no other, has its hash here"
