package archive

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The archives of these tests are read from memory, like ReadDataset and ReadRecording read files.

func archiveBytes(data []byte) (d *Dataset, err error) {
	defer guard("a.parquet", &err)
	in, err := newParquetFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return decodeDataset(in)
}

func recordingBytes(data []byte) (all *RecordingChunk, err error) {
	all = &RecordingChunk{}
	r, err := func() (r *RecordingReader, err error) {
		defer guard("a.parquet", &err)
		in, err := newParquetFile(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return newRecordingReader("a.parquet", in)
	}()
	var c RecordingChunk
	for err == nil {
		if err = r.Next(&c); err == nil {
			all.Stream, all.Seq, all.Time = append(all.Stream, c.Stream...), append(all.Seq, c.Seq...), append(all.Time, c.Time...)
			all.Values, all.End, all.Label = append(all.Values, c.Values...), append(all.End, c.End...), append(all.Label, c.Label...)
		}
	}
	if err == io.EOF {
		return all, nil
	}
	return nil, err
}

// smallArchives are the bytes of a dataset and of a recording.
func smallArchives(t testing.TB) (set, rec []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.parquet")
	read := func() []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if err := WriteDataset(path, smallDataset()); err != nil {
		t.Fatal(err)
	}
	set = read()
	writeRecording(t, path, smallInfo, smallChunk(20))
	return set, read()
}

// TestDamaged cuts archives at every length and flips a bit of every byte: the result is an error that names the
// file, never a panic. An unnoticed flip must not have changed data: the checksum of a page covers its data, while
// some of the metadata is stored twice and may change unseen.
func TestDamaged(t *testing.T) {
	set, rec := smallArchives(t)
	wantSet, wantRec := smallDataset(), smallChunk(20)
	damage(t, "dataset", set, func(data []byte) (bool, error) {
		d, err := archiveBytes(data)
		return err == nil && slices.EqualFunc(d.Series, wantSet.Series, func(a, b Series) bool {
			return a.ID == b.ID && a.Split == b.Split && a.Label == b.Label && sameBits(a.Values, b.Values)
		}), err
	})
	damage(t, "recording", rec, func(data []byte) (bool, error) {
		c, err := recordingBytes(data)
		return err == nil && sameChunk(c, wantRec), err
	})
}

func damage(t *testing.T, name string, whole []byte, read func([]byte) (same bool, err error)) {
	t.Helper()
	if same, err := read(whole); !same || err != nil {
		t.Fatalf("%s: undamaged: same %v, error %v", name, same, err)
	}
	check := func(data []byte) error {
		same, err := read(data)
		if err == nil && !same {
			t.Fatalf("%s: changed data were read without an error", name)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "offline: a.parquet: ") {
			t.Fatalf("%s: the error does not name the file: %v", name, err)
		}
		return err
	}
	for n := range whole {
		if check(whole[:n]) == nil {
			t.Fatalf("%s: the first %d of %d bytes were read as a whole archive", name, n, len(whole))
		}
	}
	noticed := 0
	for i := range whole {
		data := slices.Clone(whole)
		data[i] ^= 1 << (i % 8)
		if check(data) != nil {
			noticed++
		}
	}
	t.Logf("%s: %d of %d flipped bits noticed, the others harmless", name, noticed, len(whole))
}

// FuzzArchive wants any bytes to give a data set, a recording or an error.
func FuzzArchive(f *testing.F) {
	set, rec := smallArchives(f)
	f.Add(set)
	f.Add(rec)
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := archiveBytes(data); err == nil {
			if err := d.Validate(); err != nil {
				t.Errorf("an unsound data set was read: %v", err)
			}
		}
		if _, err := recordingBytes(data); err != nil && !strings.HasPrefix(err.Error(), "offline: a.parquet: ") {
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}
