package imports

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

func TestImport(t *testing.T) {
	dir := archivetest.Place(t, map[string]string{
		"P_TRAIN.ts": "@problemName P\n@classLabel true b a c\n@data\n1,2:b\n3,4:a\n",
		"P_test.ts":  "@classLabel true b a c\n@data\n5,?:c\n",
	})
	d, err := Import(context.Background(), Options{Dir: dir, Tool: "tool", License: "l", Note: "n"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantDataset(t, d, &archive.Dataset{
		Name: "P", Channels: []string{"c0"}, Classes: []string{"a", "b", "c"},
		Series: []archive.Series{
			{ID: "train-0", Split: archive.Train, Label: 1, Values: []float32{1, 2}},
			{ID: "train-1", Split: archive.Train, Label: 0, Values: []float32{3, 4}},
			{ID: "test-0", Split: archive.Test, Label: 2, Values: []float32{5, nan32}},
		},
		Source: archive.Provenance{
			Files: []archive.SourceFile{ // sha256sum of the two texts
				{Name: "P_TRAIN.ts", Bytes: 56, SHA256: "d21115e47e8859d5dc08efe0b075129f657068420784dfba4d42be28d5e14824"},
				{Name: "P_test.ts", Bytes: 35, SHA256: "9acbcff48b3af47a55de38c28b7907b790c768965ae28e8b373e8da5887ef504"},
			},
			Format: "ts", Tool: "tool", License: "l", Note: "n",
			Warnings: []string{"classes of test series without a training series: c"},
		},
	})
	s := Summarize(d)
	if s.Test.Missing != 1 || !slices.Equal(s.Train.ByClass, []int{1, 1, 0}) || s.Train.Samples != 4 {
		t.Errorf("summary %+v", s)
	}
}

func TestImportFinds(t *testing.T) {
	const ts = "@classLabel true a\n@data\n1:a\n"
	dir := archivetest.Place(t, map[string]string{
		"Adiac/Adiac_TRAIN.ts": ts, "Adiac/Adiac_TEST.ts": ts, "Adiac/Adiac_TRAIN.arff": "ignored while there is a .ts file",
		"extra/Beef/Beef_TRAIN.ts": ts,
		"two/Twin_TRAIN.ts":        ts, "three/Twin_TRAIN.ts": ts,
		"same/Same_TRAIN.ts": ts, "same/Same_TRAIN.ts.gz": ts,
		"README_TRAIN.md": "",
	})
	try := func(opts Options) (*archive.Dataset, error) { return Import(context.Background(), opts, nil) }
	_, err := try(Options{Dir: dir, Name: "Adiac"})
	archivetest.WantError(t, err, "Same_TRAIN.ts and ")
	if err := os.RemoveAll(filepath.Join(dir, "same")); err != nil {
		t.Fatal(err)
	}
	if d, err := try(Options{Dir: dir, Name: "adiac"}); err != nil || d.Name != "Adiac" || len(d.Series) != 2 || d.Source.Format != "ts" {
		t.Errorf("got %+v, %v", d, err)
	}
	if d, err := try(Options{Dir: dir, Name: "Beef"}); err != nil || !slices.Equal(d.Source.Warnings, []string{"no test part was found"}) {
		t.Errorf("got %+v, %v", d, err)
	}
	train := filepath.Join(dir, "two/Twin_TRAIN.ts")
	if d, err := try(Options{Test: train}); err != nil || d.Name != "Twin" || d.Series[0].Split != archive.Test {
		t.Errorf("got %+v, %v", d, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "Adiac"), link); err != nil {
		t.Fatal(err)
	}
	if d, err := try(Options{Dir: link}); err != nil || d.Name != "Adiac" {
		t.Errorf("a link to a directory: %+v, %v", d, err)
	}
	for want, opts := range map[string]Options{
		"name a directory, or a train or test file":   {},
		"either a directory or files":                 {Dir: dir, Train: train},
		`no data set "Adiacc"`:                        {Dir: dir, Name: "Adiacc"},
		"the nearest names: Adiac, ":                  {Dir: dir, Name: "Adiacs"},
		"holds 3 data sets, specify one: Adiac, Beef": {Dir: dir},
		"data set Twin exists twice":                  {Dir: dir, Name: "Twin"},
		"no data set in":                              {Dir: t.TempDir()},
		"no such file or directory":                   {Dir: filepath.Join(dir, "absent")},
		"is a file: specify it as":                    {Dir: train},
		"README_TRAIN.md: unknown type of file":       {Train: filepath.Join(dir, "README_TRAIN.md")},
		"different formats":                           {Train: train, Test: filepath.Join(dir, "x.tsv")},
		"is a directory, want a file":                 {Train: archivetest.Place(t, map[string]string{"D_TRAIN.ts/x": ""}) + "/D_TRAIN.ts"},
	} {
		_, err := try(opts)
		archivetest.WantError(t, err, want)
	}
}

func TestDatasets(t *testing.T) {
	dir := archivetest.Place(t, map[string]string{
		"Zoo_TRAIN.ts": "", "Zoo_TEST.ts": "", "more/Adiac/Adiac_TRAIN.tsv": "", "more/Adiac/Adiac_TRAIN.ts": "",
		"a/b/c/Deep_TRAIN.ts": "", "notes.txt": "", "Blink.parquet": "",
	})
	got, err := Datasets(dir)
	if err != nil || !slices.Equal(got, []string{"Adiac", "Zoo"}) {
		t.Errorf("%q, %v, want each name once, two folders down at most", got, err)
	}
	if _, err := Datasets(filepath.Join(dir, "none")); err == nil {
		t.Error("no such folder: no error")
	}
}

func TestImportPartsMustAgree(t *testing.T) {
	dir := archivetest.Place(t, map[string]string{
		"P_TRAIN.ts": "@classLabel true a\n@data\n1:a\n",
		"P_TEST.ts":  "@classLabel true a\n@data\n1:2:a\n",
	})
	_, err := Import(context.Background(), Options{Dir: dir}, nil)
	archivetest.WantError(t, err, "the train part has 1 channels, the test part 2")
}

func TestSortClasses(t *testing.T) {
	for want, given := range map[string]string{
		"-1 1 2 10":   "10 2 1 -1",
		"1 1.0 2 3.5": "3.5 1.0 2 1",
		"1 10 2 a":    "a 10 2 1",
		"B a b":       "b a B",
	} {
		got := strings.Fields(given)
		sortClasses(got)
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s sorted is %q, want %q", given, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"ECG5000", "ECGFiveDays", "Adiac", "ShapesAll"}
	for want, given := range map[string]string{"ECG5000": "ecg500", "Adiac": "Adaic", "ShapesAll": "shapes"} {
		if got := nearestNames(names, given)[0]; got != want {
			t.Errorf("nearest to %q is %q, want %q", given, got, want)
		}
	}
}

// wantDataset compares all bits, including NaNs.
func wantDataset(t *testing.T, got, want *archive.Dataset) {
	t.Helper()
	if got.Name != want.Name || got.Fingerprint(archive.Train) != want.Fingerprint(archive.Train) || got.Fingerprint(archive.Test) != want.Fingerprint(archive.Test) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	if !reflect.DeepEqual(got.Source, want.Source) {
		t.Fatalf("provenance: got %+v, want %+v", got.Source, want.Source)
	}
	for i := range want.Series {
		if got.Series[i].ID != want.Series[i].ID {
			t.Fatalf("series %d: id %q, want %q", i, got.Series[i].ID, want.Series[i].ID)
		}
	}
}
