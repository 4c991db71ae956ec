package offline

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// requireDatasets returns the folder of published data sets next to the checkout. Without the folder the test is
// skipped, or fails if EUSN_REQUIRE names "datasets", so that a machine for data sets cannot pass without the checks.
func requireDatasets(t testing.TB) string {
	t.Helper()
	dir := filepath.Join("..", "..", "shared", "datasets")
	if _, err := os.Stat(filepath.Join(dir, "PROVENANCE.md")); err != nil {
		parts.Absent(t, "datasets", "nothing is tested on real data: %v", err)
	}
	return dir
}

// realSet is the contents of a published data set.
type realSet struct {
	name        string
	train, test int
	min, max    int // samples or tokens of a series
	channels    int // 0: token lists
	classes     int
}

// paperSets are the data sets of the EuSN paper, with the counts of PROVENANCE.md (ECG5000 lacks a test case there,
// Mallat its test part).
var paperSets = []realSet{
	{"Adiac", 390, 391, 176, 176, 1, 37},
	{"Blink", 500, 450, 510, 510, 4, 2},
	{"CharacterTrajectories", 1422, 1436, 60, 182, 3, 20},
	{"ECG5000", 500, 4499, 140, 140, 1, 5},
	{"IMDB", 25000, 25000, 7, 2494, 0, 2},
	{"Mallat", 55, 0, 1024, 1024, 1, 8},
	{"PenDigits", 7494, 3498, 8, 8, 2, 10},
	{"RacketSports", 151, 152, 30, 30, 6, 4},
	{"Reuters", 8982, 2246, 13, 2376, 0, 46},
	{"ShapesAll", 600, 600, 512, 512, 1, 60},
	{"SpokenArabicDigits", 6599, 2199, 4, 93, 13, 10},
}

// largeSets take some seconds.
var largeSets = []realSet{
	{"MNIST", 60000, 10000, 784, 784, 1, 10},
	{"MotionSenseHAR", 966, 265, 1000, 1000, 12, 6},
}

// extraSets are sets of the UCR and UEA archives with the figures published by timeseriesclassification.com.
var extraSets = []realSet{
	{"ArrowHead", 36, 175, 251, 251, 1, 3},
	{"ArticularyWordRecognition", 275, 300, 144, 144, 9, 25},
	{"AtrialFibrillation", 15, 15, 640, 640, 2, 3},
	{"BasicMotions", 40, 40, 100, 100, 6, 4},
	{"Beef", 30, 30, 470, 470, 1, 5},
	{"CBF", 30, 900, 128, 128, 1, 3},
	{"Car", 60, 60, 577, 577, 1, 4},
	{"Chinatown", 20, 343, 24, 24, 1, 2},
	{"Coffee", 28, 28, 286, 286, 1, 2},
	{"Computers", 250, 250, 720, 720, 1, 2},
	{"CricketX", 390, 390, 300, 300, 1, 12},
	{"ECG200", 100, 100, 96, 96, 1, 2},
	{"ECGFiveDays", 23, 861, 136, 136, 1, 2},
	{"ERing", 30, 270, 65, 65, 4, 6},
	{"Earthquakes", 322, 139, 512, 512, 1, 2},
	{"FaceAll", 560, 1690, 131, 131, 1, 14},
	{"FingerMovements", 316, 100, 50, 50, 28, 2},
	{"Fish", 175, 175, 463, 463, 1, 7},
	{"GunPoint", 50, 150, 150, 150, 1, 2},
	{"Handwriting", 150, 850, 152, 152, 3, 26},
	{"HouseTwenty", 40, 119, 2000, 2000, 1, 2},
	{"ItalyPowerDemand", 67, 1029, 24, 24, 1, 2},
	{"JapaneseVowels", 270, 370, 7, 29, 12, 9},
	{"Lightning7", 70, 73, 319, 319, 1, 7},
	{"MedicalImages", 381, 760, 99, 99, 1, 10},
	{"MoteStrain", 20, 1252, 84, 84, 1, 2},
	{"NATOPS", 180, 180, 51, 51, 24, 6},
	{"OSULeaf", 200, 242, 427, 427, 1, 6},
	{"PhalangesOutlinesCorrect", 1800, 858, 80, 80, 1, 2},
	{"Plane", 105, 105, 144, 144, 1, 7},
	{"PowerCons", 180, 180, 144, 144, 1, 2},
	{"SonyAIBORobotSurface1", 20, 601, 70, 70, 1, 2},
	{"Strawberry", 613, 370, 235, 235, 1, 2},
	{"SwedishLeaf", 500, 625, 128, 128, 1, 15},
	{"SyntheticControl", 300, 300, 60, 60, 1, 6},
	{"TwoLeadECG", 23, 1139, 82, 82, 1, 2},
}

// TestRealDatasets imports every available published data set, compares the set with its published figures and the
// recorded sums of its files, and passes the set through an archive unchanged.
func TestRealDatasets(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: -short, and the sets take half a minute, with the race detector minutes")
	}
	dir := requireDatasets(t)
	sums := readSums(t, filepath.Join(dir, "PROVENANCE.md"))
	sets := slices.Concat(paperSets, extraSets, largeSets)
	for _, want := range sets {
		t.Run(want.name, func(t *testing.T) { want.check(t, dir, sums) })
	}
	extra, err := os.ReadDir(filepath.Join(dir, "extra"))
	if err != nil || len(extra) != len(extraSets) {
		t.Errorf("%d folders in extra, %d sets in the table: %v", len(extra), len(extraSets), err)
	}
}

func (want realSet) check(t *testing.T, dir string, sums map[string]string) {
	d, err := imports.Import(context.Background(), imports.Options{Dir: dir, Name: want.name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := imports.Summarize(d)
	got := realSet{s.Name, s.Train.Series, s.Test.Series, s.Train.MinLength, max(s.Train.MaxLength, s.Test.MaxLength), s.Channels, len(s.Classes)}
	if s.Test.Series > 0 {
		got.min = min(got.min, s.Test.MinLength)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s.Train.Missing+s.Test.Missing != 0 || s.Train.Unlabeled+s.Test.Unlabeled != 0 {
		t.Errorf("%d and %d missing values, %d and %d unlabeled series, want none", s.Train.Missing, s.Test.Missing, s.Train.Unlabeled, s.Test.Unlabeled)
	}
	if warned := len(s.Warnings) > 0; warned != (want.test == 0) {
		t.Errorf("warnings %q", s.Warnings)
	}
	for _, f := range s.Files {
		if sums[f.Name] != fmt.Sprint(f.Bytes, " ", f.SHA256) {
			t.Errorf("%s: %d bytes, sha256 %s, but recorded: %s", f.Name, f.Bytes, f.SHA256, sums[f.Name])
		}
	}
	path := filepath.Join(t.TempDir(), "d.parquet")
	if err := archive.WriteDataset(path, d); err != nil {
		t.Fatal(err)
	}
	back, err := archive.ReadDataset(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back.Source, d.Source) || back.Name != d.Name || back.Fingerprint(archive.Test) != d.Fingerprint(archive.Test) {
		t.Errorf("after the archive: %+v, before: %+v", imports.Summarize(back), s)
	}
	if f := back.Fingerprint(archive.Train); f != s.Train.Fingerprint {
		t.Errorf("fingerprint %s after the archive, %s before", f, s.Train.Fingerprint)
	}
}

// readSums takes "bytes sha256" of each file from the table in PROVENANCE.md.
func readSums(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sums := make(map[string]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		cells := strings.Split(strings.ReplaceAll(lines.Text(), "`", ""), "|")
		if len(cells) == 5 && strings.HasSuffix(strings.TrimSpace(cells[1]), ".gz") {
			sums[filepath.Base(strings.TrimSpace(cells[1]))] = strings.TrimSpace(cells[2]) + " " + strings.TrimSpace(cells[3])
		}
	}
	if len(sums) < 80 {
		t.Fatalf("%s: read %d sums of files, want more than 80", path, len(sums))
	}
	return sums
}
