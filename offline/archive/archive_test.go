package archive

import (
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// smallDataset holds difficult values: NaNs of several bits, negative zero, denormals, unequal lengths, an unknown
// label, odd names.
func smallDataset() *Dataset {
	nan := math.Float32frombits(0x7fc00123)
	return &Dataset{
		Name:     "Small \u00e9",
		Channels: []string{"acc x", "c.1"},
		Classes:  []string{"1", "2", "10"},
		Series: []Series{
			{ID: "train-0", Split: Train, Label: 2, Values: []float32{1, 2, nan, 4, float32(math.NaN()), float32(math.Copysign(0, -1))}},
			{ID: "train-1", Split: Train, Label: -1, Values: []float32{math.SmallestNonzeroFloat32, math.MaxFloat32}},
			{ID: "test-0", Split: Test, Label: 0, Values: []float32{5, 6, 7, 8}},
		},
		Source: Provenance{
			Files:  []SourceFile{{Name: "a.ts", Bytes: 12, SHA256: "00"}},
			Format: "ts", Tool: "test", License: "CC0", Note: "n", Warnings: []string{"w"},
		},
	}
}

func tokenDataset() *Dataset {
	return &Dataset{
		Name: "Words", Classes: []string{"neg", "pos"},
		Series: []Series{
			{ID: "train-0", Split: Train, Label: 1, Tokens: []int32{1, 14, 2}},
			{ID: "test-0", Split: Test, Label: 0, Tokens: []int32{9999}},
		},
		Source: Provenance{Format: "tokens"},
	}
}

// sameDataset compares to the last bit, so that NaNs count.
func sameDataset(t *testing.T, got, want *Dataset) {
	t.Helper()
	if got.Name != want.Name || !slices.Equal(got.Channels, want.Channels) || !slices.Equal(got.Classes, want.Classes) {
		t.Fatalf("got %q %q %q, want %q %q %q", got.Name, got.Channels, got.Classes, want.Name, want.Channels, want.Classes)
	}
	if !reflect.DeepEqual(got.Source, want.Source) {
		t.Fatalf("provenance: got %+v, want %+v", got.Source, want.Source)
	}
	if len(got.Series) != len(want.Series) {
		t.Fatalf("got %d series, want %d", len(got.Series), len(want.Series))
	}
	for i := range want.Series {
		g, w := got.Series[i], want.Series[i]
		if g.ID != w.ID || g.Split != w.Split || g.Label != w.Label || !slices.Equal(g.Tokens, w.Tokens) || !sameBits(g.Values, w.Values) {
			t.Fatalf("series %d: got %+v, want %+v", i, g, w)
		}
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

func TestArchiveRoundTrip(t *testing.T) {
	large := &Dataset{Name: "Large", Channels: []string{"a", "b", "c"}, Classes: []string{"x"}}
	for i := range 5 { // more values than one row group takes, and one series as long as a group
		values := make([]float32, 3*(groupValues/3)*(i%2)+3*1000)
		for k := range values {
			values[k] = math.Float32frombits(uint32(k*2654435761)%0x7f000000 + uint32(i))
		}
		large.Series = append(large.Series, Series{ID: string(rune('a' + i)), Split: Train, Values: values})
	}
	for _, d := range []*Dataset{smallDataset(), tokenDataset(), large} {
		path := filepath.Join(t.TempDir(), "d.parquet")
		if err := WriteDataset(path, d); err != nil {
			t.Fatal(err)
		}
		got, err := ReadDataset(path)
		if err != nil {
			t.Fatal(err)
		}
		sameDataset(t, got, d)
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
			t.Errorf("temporary files left behind: %v", left)
		}
	}
}
