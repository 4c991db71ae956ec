package compare

import (
	"slices"
	"testing"
)

func constant(name string, accuracy float64) Method {
	return Method{name, func(string) (float64, bool) { return accuracy, true }}
}

// Which data sets and classifiers meet in a ranking follows from what is published.
func TestBesidePublished(t *testing.T) {
	banks := []Method{constant("a", .9), constant("b", .8)}
	all := BesidePublished([]string{"Adiac", "NATOPS", "SpokenArabicDigits", "Ours"}, banks)
	if len(all) != 2 {
		t.Fatalf("%d rankings, want that of every set and that of every classifier", len(all))
	}
	// Nobody published MiniROCKET and MultiROCKET on NATOPS. SpokenArabicDigits has
	// figures, of series that were brought to one length: it is not of Sets.
	for i, want := range []Ranking{
		{Methods: []string{"a", "b", "1NN-DTW", "ROCKET", "MultiROCKET-Hydra", "QUANT", "HIVE-COTE 2"}, Datasets: []string{"Adiac", "NATOPS"}, Left: []string{"SpokenArabicDigits", "Ours"}},
		{Methods: slices.Concat([]string{"a", "b"}, Classifiers), Datasets: []string{"Adiac"}, Left: []string{"NATOPS", "SpokenArabicDigits", "Ours"}},
	} {
		if r := all[i]; !slices.Equal(r.Methods, want.Methods) || !slices.Equal(r.Datasets, want.Datasets) || !slices.Equal(r.Left, want.Left) {
			t.Errorf("ranking %d: %q on %q without %q", i, r.Methods, r.Datasets, r.Left)
		}
	}
	// a against b and five classifiers, b against these.
	if d := all[0].Differences(2); len(d) != 6+5 || d[0].Against != "b" || d[0].Better != 2 || d[6].Method != "b" || d[6].Against != "1NN-DTW" {
		t.Errorf("differences %+v", d)
	}
	if all := BesidePublished([]string{"Adiac"}, banks); len(all) != 1 || len(all[0].Methods) != 9 {
		t.Errorf("where all have a figure: %d rankings, want one", len(all))
	}
	if all := BesidePublished([]string{"Ours"}, banks); len(all) != 1 || !slices.Equal(all[0].Methods, []string{"a", "b"}) || len(all[0].Datasets) != 1 {
		t.Errorf("own data alone: %+v, want the banks ranked", all)
	}
	if all := BesidePublished([]string{"Ours"}, banks[:1]); len(all) != 0 {
		t.Errorf("one bank on own data: %+v, want nothing to compare", all)
	}
}
