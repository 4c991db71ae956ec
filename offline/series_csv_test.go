package offline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func readCSVOf(t *testing.T, text string, length int) (*Dataset, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pump.csv")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return ReadCSV(t.Context(), path, length, nil)
}

// listSeries tells what a data set holds, in a line.
func listSeries(d *Dataset) string {
	var all []string
	for i := range d.Series {
		s := &d.Series[i]
		all = append(all, fmt.Sprintf("%s %s %v", s.ID, s.Split, s.Values))
	}
	return strings.Join(all, "; ")
}

func TestReadCSV(t *testing.T) {
	// Streams take turns; a's second sequence has no end.
	d, err := readCSVOf(t, "stream,x,y,end\na,1,10,\nb,2,20,\na,3,30,true\nb,4,,1\na,5,50,\n", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := listSeries(d), "a-0 train [1 10 3 30]; b-0 train [2 20 4 NaN]; a-1 test [5 50]"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if d.Name != "pump" || !slices.Equal(d.Channels, []string{"x", "y"}) || len(d.Classes) != 0 || len(d.Source.Files) != 1 {
		t.Errorf("%+v", d)
	}

	// Eleven samples cut by 3 are three series; nothing is lost.
	text := "stream,x\n"
	for i := range 11 {
		text += fmt.Sprintf("a,%d\n", i)
	}
	if d, err = readCSVOf(t, text, 3); err != nil {
		t.Fatal(err)
	}
	if got, want := listSeries(d), "a-0 train [0 1 2]; a-1 train [3 4 5 6]; a-2 test [7 8 9 10]"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if d, err = readCSVOf(t, text, 2); err != nil || len(d.Series) != 5 || len(d.Part(Train)) != 4 {
		t.Errorf("%v: want 4 of 5 series to train: %s", err, listSeries(d))
	}
	if d, err = readCSVOf(t, text, 12); err != nil || len(d.Series) != 1 || d.Len(0) != 11 {
		t.Errorf("%v: a sequence shorter than the cut: %+v", err, d)
	}

	for _, c := range []struct{ text, says string }{
		{"", "pump.csv: the file is empty"},
		{"stream,x\n", "no samples after the header line"},
		{"x\n1\n", `no column "stream"; the header has: "x"`},
		{"stream,seq\na,1\n", "no channel column"},
		{"stream,x\na,1\na,one\n", "pump.csv:3: "},
		{"stream,split\na,1\n", "reserved"},
	} {
		if _, err := readCSVOf(t, c.text, 0); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, want %q", c.text, err, c.says)
		}
	}
}
