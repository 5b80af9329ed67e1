from __future__ import annotations

import os

import pytest

from vrtspike.deblurring.data.gate.ingest import ingest_sequence
from vrtspike.deblurring.data.raw.versions import source_version
from vrtspike.io.files import write_json

SPLIT, NAME = "train", "GOPR0001_11_00"


class TestSourceVersion:
    @pytest.fixture
    def manifest(self, dataset, tmp_path):
        path = tmp_path / "manifest.json"
        version = source_version(dataset, NAME, SPLIT, path)
        write_json(
            path,
            ingest_sequence(dataset, SPLIT, NAME, blur_dir="blur", source_version=version),
        )
        return path

    def version(self, dataset, manifest, **options):
        return source_version(dataset, NAME, SPLIT, manifest, **options)

    def test_touching_changes_nothing(self, dataset, manifest):
        before = self.version(dataset, manifest)
        os.utime(dataset / SPLIT / NAME / "blur" / "000002.png", (1, 1))
        assert self.version(dataset, manifest) == before

    @pytest.mark.parametrize("later", [1, -(10**12)])
    def test_a_changed_file_of_the_same_size_is_found_by_any_other_date(
        self, dataset, manifest, later
    ):
        path = dataset / SPLIT / NAME / "spike" / "000002.dat"
        before, date = self.version(dataset, manifest), path.stat().st_mtime_ns
        path.write_bytes(bytes(path.stat().st_size))
        os.utime(path, ns=(date, date + later))
        if path.stat().st_mtime_ns == date:
            pytest.skip("this file system keeps no nanoseconds")
        assert self.version(dataset, manifest) != before

    def test_stray_files_and_other_sequences_change_nothing(self, dataset, manifest):
        before = self.version(dataset, manifest)
        (dataset / SPLIT / NAME / "notes.txt").write_text("stray")
        (dataset / SPLIT / "GOPR0002_11_00" / "blur" / "000002.png").write_bytes(b"")
        assert self.version(dataset, manifest) == before

    @pytest.mark.parametrize("kind", ["blur/000002.png", "sharp/000001.png", "spike/000003.dat"])
    def test_changed_missing_and_new_files_count(self, dataset, manifest, kind):
        path = dataset / SPLIT / NAME / kind
        versions = [self.version(dataset, manifest)]
        contents = bytearray(path.read_bytes())
        contents[-1] ^= 1
        path.write_bytes(contents)
        versions.append(self.version(dataset, manifest))
        path.rename(path.with_stem("000077"))
        versions.append(self.version(dataset, manifest))
        path.with_stem("000077").unlink()
        versions.append(self.version(dataset, manifest))
        assert len(set(versions)) == 4

    def test_a_link_that_leads_nowhere_is_for_the_job_to_report(self, dataset, manifest):
        before = self.version(dataset, manifest)
        path = dataset / SPLIT / NAME / "blur" / "000002.png"
        path.unlink()
        path.symlink_to("nowhere.png")
        version = self.version(dataset, manifest)
        assert version != before
        found = ingest_sequence(dataset, SPLIT, NAME, blur_dir="blur", source_version=version)
        write_json(manifest, found)
        assert self.version(dataset, manifest) == version

    def test_going_back_brings_the_version_back(self, dataset, manifest):
        path = dataset / SPLIT / NAME / "spike" / "000001.dat"
        before, contents = self.version(dataset, manifest), path.read_bytes()
        path.write_bytes(bytes(len(contents)))
        assert self.version(dataset, manifest) != before
        path.write_bytes(contents)
        assert self.version(dataset, manifest) == before

    def test_a_broken_manifest_is_not_trusted(self, dataset, manifest):
        before = self.version(dataset, manifest)
        os.utime(dataset / SPLIT / NAME / "blur" / "000002.png", (1, 1))
        manifest.write_text("{")
        assert self.version(dataset, manifest) != before
