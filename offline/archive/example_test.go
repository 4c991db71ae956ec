package archive_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// An archive is one Parquet file; numbers come back bit for bit.
func ExampleWriteDataset() {
	set := &archive.Dataset{Name: "vibrations", Channels: []string{"x"}, Classes: []string{"fast", "slow"}, Series: []archive.Series{
		{ID: "run-0", Split: archive.Train, Label: 0, Values: []float32{1, 0.5, -1}},
		{ID: "run-1", Split: archive.Test, Label: 1, Values: []float32{0.1, 0.2, 0.3, 0.4}},
	}}
	dir, err := os.MkdirTemp("", "archive")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "vibrations.parquet")
	if err := archive.WriteDataset(path, set); err != nil {
		log.Fatal(err)
	}
	d, err := archive.ReadDataset(path)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Name, d.Classes, len(d.Part(archive.Train)), len(d.Part(archive.Test)))
	fmt.Println(d.Fingerprint(archive.Test) == set.Fingerprint(archive.Test))
	// Output:
	// vibrations [fast slow] 1 1
	// true
}
