package archive

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
)

// TestFingerprint pins the canonical form: a change would make every recorded
// fingerprint lie. The expected value was computed by the Python lines below.
//
//	b"eusn-dataset-1" + pack("<I", 2) + pack("<I1sI2s", 1, b"1", 2, b"10") + pack("<II1s", 1, 1, b"x")
//	+ pack("<iIff", 1, 2, 1.5, -2)
func TestFingerprint(t *testing.T) {
	base := func() *Dataset {
		return &Dataset{
			Name: "F", Channels: []string{"x"}, Classes: []string{"1", "10"},
			Series: []Series{{ID: "a", Split: Train, Label: 1, Values: []float32{1.5, -2}}},
		}
	}
	want := base().Fingerprint(Train)
	if want != "e0ae1a4ec37da954c36670873ee625c00ea30fa35d1b45b60581201cf1c8fe07" {
		t.Errorf("got %s", want)
	}
	for name, change := range map[string]func(*Dataset){
		"value":   func(d *Dataset) { d.Series[0].Values[0] = math.Nextafter32(1.5, 2) },
		"label":   func(d *Dataset) { d.Series[0].Label = 0 },
		"class":   func(d *Dataset) { d.Classes[0] = "2" },
		"channel": func(d *Dataset) { d.Channels[0] = "y" },
		"split":   func(d *Dataset) { d.Series[0].Split = Test },
		"length":  func(d *Dataset) { d.Series[0].Values = d.Series[0].Values[:1] },
	} {
		d := base()
		if change(d); d.Fingerprint(Train) == want {
			t.Errorf("another %s leaves the fingerprint as it was", name)
		}
	}
	same := base()
	same.Name, same.Series[0].ID = "G", "b"
	if same.Fingerprint(Train) != want {
		t.Error("name or id change the fingerprint")
	}
}

func TestValidate(t *testing.T) {
	for want, spoil := range map[string]func(*Dataset){
		"it has no series":                 func(d *Dataset) { d.Series = nil },
		"is empty or repeated":             func(d *Dataset) { d.Series[1].ID = d.Series[0].ID },
		`split "valid", want`:              func(d *Dataset) { d.Series[0].Split = "valid" },
		"label 3, want -1 or":              func(d *Dataset) { d.Series[0].Label = 3 },
		"5 values do not fill":             func(d *Dataset) { d.Series[0].Values = make([]float32, 5) },
		"is empty, want at least":          func(d *Dataset) { d.Series[0].Values = nil },
		"has tokens, but":                  func(d *Dataset) { d.Series[0].Tokens = []int32{1} },
		"has values, but":                  func(d *Dataset) { d.Channels = nil },
		`sample 0 of channel "c.1" is inf`: func(d *Dataset) { d.Series[2].Values[1] = float32(math.Inf(-1)) },
		`class name "1" is given twice`:    func(d *Dataset) { d.Classes[1] = "1" },
		`channel name "id" is reserved`:    func(d *Dataset) { d.Channels[0] = "id" },
	} {
		d := smallDataset()
		spoil(d)
		archivetest.WantError(t, WriteDataset(filepath.Join(t.TempDir(), "x.parquet"), d), want)
	}
}

// The same in archives from another program.
func TestNamesOfArchives(t *testing.T) {
	for key, list := range map[string]string{keyClasses: `["%s","y"]`, keyChannels: `["%s","b"]`, keyProblem: "%s"} {
		for _, name := range []string{`a\u001b[31m`, strings.Repeat("x", 257)} {
			meta, columns := archivetest.SetMeta(), archivetest.SetColumns()
			meta[key] = fmt.Sprintf(list, name)
			if key == keyProblem {
				meta[key] = strings.ReplaceAll(meta[key], `\u001b`, "\x1b")
			}
			if key == keyChannels {
				columns[4].Name = strings.ReplaceAll(name, `\u001b`, "\x1b")
			}
			if _, err := archiveBytes(archivetest.Foreign(t, meta, columns)); err == nil || !strings.Contains(err.Error(), "control character U+001B") && !strings.Contains(err.Error(), "257 bytes") {
				t.Errorf("%s of %.10q: %v", key, name, err)
			}
		}
	}
	d := smallDataset()
	d.Series[0].ID = "\x1b"
	archivetest.WantError(t, WriteDataset(filepath.Join(t.TempDir(), "x"), d), "control character U+001B")
	for _, c := range []*RecordingChunk{smallChunk(3), smallChunk(3)} {
		c.Label[2] = "\x1b"
		archivetest.WantError(t, c.Check(len(c.Values)/3, false), `sample 2: label "\x1b" holds the control character`)
		c.Label[2], c.Stream[1] = "", strings.Repeat("x", 257)
		archivetest.WantError(t, c.Check(len(c.Values)/3, false), "sample 1: stream")
	}
}

// A column of numbers of any type, and columns that are refused.
func TestSetTarget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	columns := append(archivetest.SetColumns(),
		archivetest.Column{"half", archivetest.Number, `[0.5,null]`}, archivetest.Column{"double", arrow.PrimitiveTypes.Float64, `[0.1,-2e20]`},
		archivetest.Column{"whole", arrow.PrimitiveTypes.Int64, `[-7,null]`}, archivetest.Column{"short", arrow.PrimitiveTypes.Int32, `[-7,3]`},
		archivetest.Column{"count", arrow.PrimitiveTypes.Uint32, `[4294967295,1]`}, archivetest.Column{"large", arrow.PrimitiveTypes.Uint64, `[9223372036854775808,1]`},
		archivetest.Column{"much", arrow.PrimitiveTypes.Float64, `[1,2e30]`}, archivetest.Column{"day", arrow.FixedWidthTypes.Date32, `["2026-01-01",null]`},
		archivetest.Column{"yes", arrow.FixedWidthTypes.Boolean, `[true,null]`}, archivetest.Column{"price", &arrow.Decimal128Type{Precision: 9, Scale: 2}, `["1.00","2.00"]`})
	if err := os.WriteFile(path, archivetest.Foreign(t, archivetest.SetMeta(), columns), 0o644); err != nil {
		t.Fatal(err)
	}
	none := math.NaN()
	for name, want := range map[string][]float64{
		"half": {.5, none}, "double": {.1, -2e20}, "whole": {-7, none}, "short": {-7, 3}, "count": {1<<32 - 1, 1}, "large": {1 << 63, 1},
	} {
		d, err := ReadDataset(path)
		if err == nil {
			err = d.SetTarget(path, name)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.Target != name || !slices.Equal(d.Classes, []string{name}) {
			t.Errorf("%s: target %q, classes %q", name, d.Target, d.Classes)
		}
		for i, s := range d.Series {
			if known := want[i] == want[i]; known != (s.Label == 0) || known && s.Number != want[i] || !known && (s.Label != -1 || s.Number == s.Number) {
				t.Errorf("%s of series %d: %v, label %d, want %v", name, i, s.Number, s.Label, want[i])
			}
		}
	}
	for name, want := range map[string]string{
		"wear":    `has no column "wear", whose values are to be numbers to learn; it has a, b,`,
		"a":       `column "a" is a channel, which the model would see`,
		"comment": `column "comment": stored as`, "yes": `column "yes": stored as`, "day": `want numbers`, "price": `want numbers`,
		"much": `row 1 of the row group: 2e+30, want a magnitude of at most 1e+30`,
	} {
		d, err := ReadDataset(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.SetTarget(path, name); err == nil || !strings.Contains(err.Error(), want) || d.Target != "" {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
