package offline

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// place writes files into a new folder; a name may hold folders.
func place(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestImport(t *testing.T) {
	dir := place(t, map[string]string{
		"P_TRAIN.ts": "@problemName P\n@classLabel true b a c\n@data\n1,2:b\n3,4:a\n",
		"P_test.ts":  "@classLabel true b a c\n@data\n5,?:c\n",
	})
	d, err := Import(context.Background(), ImportOptions{Dir: dir, Tool: "tool", License: "l", Note: "n"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sameDataset(t, d, &Dataset{
		Name: "P", Channels: []string{"c0"}, Classes: []string{"a", "b", "c"},
		Series: []Series{
			{ID: "train-0", Split: Train, Label: 1, Values: []float32{1, 2}},
			{ID: "train-1", Split: Train, Label: 0, Values: []float32{3, 4}},
			{ID: "test-0", Split: Test, Label: 2, Values: []float32{5, nan32}},
		},
		Source: Provenance{
			Files: []SourceFile{ // sha256sum of the two texts
				{"P_TRAIN.ts", 56, "d21115e47e8859d5dc08efe0b075129f657068420784dfba4d42be28d5e14824"},
				{"P_test.ts", 35, "9acbcff48b3af47a55de38c28b7907b790c768965ae28e8b373e8da5887ef504"},
			},
			Format: "ts", Tool: "tool", License: "l", Note: "n",
			Warnings: []string{"classes of test series without a training series: c"},
		},
	})
	s := d.Summary()
	if s.Test.Missing != 1 || !slices.Equal(s.Train.ByClass, []int{1, 1, 0}) || s.Train.Samples != 4 {
		t.Errorf("summary %+v", s)
	}
}

func TestImportFinds(t *testing.T) {
	const ts = "@classLabel true a\n@data\n1:a\n"
	dir := place(t, map[string]string{
		"Adiac/Adiac_TRAIN.ts": ts, "Adiac/Adiac_TEST.ts": ts, "Adiac/Adiac_TRAIN.arff": "ignored while there is a .ts file",
		"extra/Beef/Beef_TRAIN.ts": ts,
		"two/Twin_TRAIN.ts":        ts, "three/Twin_TRAIN.ts": ts,
		"same/Same_TRAIN.ts": ts, "same/Same_TRAIN.ts.gz": ts,
		"README_TRAIN.md": "",
	})
	try := func(opts ImportOptions) (*Dataset, error) { return Import(context.Background(), opts, nil) }
	_, err := try(ImportOptions{Dir: dir, Name: "Adiac"})
	wantError(t, err, "Same_TRAIN.ts and ")
	if err := os.RemoveAll(filepath.Join(dir, "same")); err != nil {
		t.Fatal(err)
	}
	if d, err := try(ImportOptions{Dir: dir, Name: "adiac"}); err != nil || d.Name != "Adiac" || len(d.Series) != 2 || d.Source.Format != "ts" {
		t.Errorf("got %+v, %v", d, err)
	}
	if d, err := try(ImportOptions{Dir: dir, Name: "Beef"}); err != nil || !slices.Equal(d.Source.Warnings, []string{"no test part was found"}) {
		t.Errorf("got %+v, %v", d, err)
	}
	train := filepath.Join(dir, "two/Twin_TRAIN.ts")
	if d, err := try(ImportOptions{Test: train}); err != nil || d.Name != "Twin" || d.Series[0].Split != Test {
		t.Errorf("got %+v, %v", d, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "Adiac"), link); err != nil {
		t.Fatal(err)
	}
	if d, err := try(ImportOptions{Dir: link}); err != nil || d.Name != "Adiac" {
		t.Errorf("a link to a directory: %+v, %v", d, err)
	}
	for want, opts := range map[string]ImportOptions{
		"name a directory, or a train or test file": {},
		"either a directory or files":               {Dir: dir, Train: train},
		`no data set "Adiacc"`:                      {Dir: dir, Name: "Adiacc"},
		"the nearest names there: Adiac, ":          {Dir: dir, Name: "Adiacs"},
		"holds 3 data sets, name one: Adiac, Beef":  {Dir: dir},
		"Twin is found twice":                       {Dir: dir, Name: "Twin"},
		"no data set in":                            {Dir: t.TempDir()},
		"no such file or directory":                 {Dir: filepath.Join(dir, "absent")},
		"is a file: name it as":                     {Dir: train},
		"README_TRAIN.md: unknown kind of file":     {Train: filepath.Join(dir, "README_TRAIN.md")},
		"different formats":                         {Train: train, Test: filepath.Join(dir, "x.tsv")},
		"is a directory, want a file":               {Train: place(t, map[string]string{"D_TRAIN.ts/x": ""}) + "/D_TRAIN.ts"},
	} {
		_, err := try(opts)
		wantError(t, err, want)
	}
}

func TestDatasets(t *testing.T) {
	dir := place(t, map[string]string{
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
	dir := place(t, map[string]string{
		"P_TRAIN.ts": "@classLabel true a\n@data\n1:a\n",
		"P_TEST.ts":  "@classLabel true a\n@data\n1:2:a\n",
	})
	_, err := Import(context.Background(), ImportOptions{Dir: dir}, nil)
	wantError(t, err, "the train part has 1 channels, the test part 2")
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
		if got := nearest(names, given)[0]; got != want {
			t.Errorf("nearest to %q is %q, want %q", given, got, want)
		}
	}
}

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
		wantError(t, WriteArchive(filepath.Join(t.TempDir(), "x.parquet"), d), want)
	}
}
