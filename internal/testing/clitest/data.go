package clitest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TinyData writes a data set of two easy classes, slow and fast waves, as .ts
// files, and returns their folder.
func TinyData(t *testing.T, name string, channels, series, length int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"TRAIN", "TEST"} {
		var b strings.Builder
		fmt.Fprintf(&b, "@problemName %s\n@univariate %v\n@classLabel true fast slow\n@data\n", name, channels == 1)
		for i := range series {
			label, step := "slow", 0.2
			if i%2 == 1 {
				label, step = "fast", 0.6
			}
			phase := float64(i)
			if part == "TEST" {
				phase += 0.5
			}
			for c := range channels {
				for k := range length {
					if k > 0 {
						b.WriteByte(',')
					}
					fmt.Fprintf(&b, "%.4f", math.Sin(step*float64(k)+phase+float64(c)))
				}
				b.WriteByte(':')
			}
			fmt.Fprintln(&b, label)
		}
		Write(t, filepath.Join(dir, name+"_"+part+".ts"), b.String())
	}
	return dir
}

// ImportTiny returns the archive of a tiny data set.
func ImportTiny(t *testing.T, channels int) string {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "tiny.parquet")
	Must(t, "import", TinyData(t, "Tiny", channels, 24, 40), "--output", archive)
	return archive
}

// RecordingCSV is a recording of some streams, with several sequences each.
func RecordingCSV(streams, samples int) string {
	var b strings.Builder
	b.WriteString("stream,time,end,c0,c1\n")
	for i := range samples {
		for s := range streams {
			x := float64(i) / float64(2+s)
			fmt.Fprintf(&b, "m %d,%d,%t,%.6f,%.6f\n", s, 1_700_000_000_000_000_000+int64(i)*1_000_000, (i+s)%40 == 39, math.Sin(x), math.Cos(x))
		}
	}
	return b.String()
}

// Line holds the fields that tests read from a prediction in a line of JSON.
type Line struct {
	Stream  string    `json:"stream"`
	Seq     uint64    `json:"seq"`
	Row     uint32    `json:"row"`
	Class   string    `json:"class"`
	Scores  []float32 `json:"scores"`
	Flags   string    `json:"flags"`
	Readout string    `json:"readout"`
}
