package archive

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var writeFormats = flag.Bool("write-formats", false, "write the files of testdata/formats that are not there")

// Stored archives of version 1 are read with their original content. See CONTRIBUTING.md, "When a format changes".
func TestStoredArchives(t *testing.T) {
	stored := func(name string, write func(path string)) string {
		path := filepath.Join("testdata", "formats", name)
		if _, err := os.Stat(path); *writeFormats && os.IsNotExist(err) {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			write(path)
		}
		return path
	}
	for name, want := range map[string]*Dataset{"dataset-1.parquet": smallDataset(), "tokens-1.parquet": tokenDataset()} {
		got, err := ReadDataset(stored(name, func(path string) {
			if err := WriteDataset(path, want); err != nil {
				t.Fatal(err)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		sameDataset(t, got, want)
	}
	info := RecordingInfo{Name: "Pump", Channels: []string{"x", "y"}}
	want := smallChunk(9)
	_, all, _, err := readAll(stored("recording-1.parquet", func(path string) { writeRecording(t, path, info, want) }))
	if err != nil {
		t.Fatal(err)
	}
	if !sameChunk(&all, want) {
		t.Errorf("read %+v, want %+v", all, *want)
	}
}
