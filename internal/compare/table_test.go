package compare

import (
	"slices"
	"testing"
)

func constant(name string, accuracy float64) Method {
	return Method{name, func(string) (float64, bool) { return accuracy, true }}
}

// The data sets and classifiers of a ranking follow from the published figures.
func TestRankWithPublished(t *testing.T) {
	banks := []Method{constant("a", .9), constant("b", .8)}
	all := RankWithPublished([]string{"Adiac", "NATOPS", "SpokenArabicDigits", "Ours"}, banks)
	if len(all) != 2 {
		t.Fatalf("%d rankings, want that of every set and that of every classifier", len(all))
	}
	// MiniROCKET and MultiROCKET have no published figure on NATOPS. SpokenArabicDigits
	// has figures, of series brought to a common length: it is not in Sets.
	for i, want := range []Ranking{
		{Methods: []string{"a", "b", "1NN-DTW", "ROCKET", "MultiROCKET-Hydra", "QUANT", "HIVE-COTE 2"}, Datasets: []string{"Adiac", "NATOPS"}, Missing: []string{"SpokenArabicDigits", "Ours"}},
		{Methods: slices.Concat([]string{"a", "b"}, Classifiers), Datasets: []string{"Adiac"}, Missing: []string{"NATOPS", "SpokenArabicDigits", "Ours"}},
	} {
		if r := all[i]; !slices.Equal(r.Methods, want.Methods) || !slices.Equal(r.Datasets, want.Datasets) || !slices.Equal(r.Missing, want.Missing) {
			t.Errorf("ranking %d: %q on %q without %q", i, r.Methods, r.Datasets, r.Missing)
		}
	}
	// a against b and five classifiers, b against the classifiers.
	if d := all[0].Differences(2); len(d) != 6+5 || d[0].Against != "b" || d[0].Better != 2 || d[6].Method != "b" || d[6].Against != "1NN-DTW" {
		t.Errorf("differences %+v", d)
	}
	if all := RankWithPublished([]string{"Adiac"}, banks); len(all) != 1 || len(all[0].Methods) != 9 {
		t.Errorf("where all have a figure: %d rankings, want one", len(all))
	}
	if all := RankWithPublished([]string{"Ours"}, banks); len(all) != 1 || !slices.Equal(all[0].Methods, []string{"a", "b"}) || len(all[0].Datasets) != 1 {
		t.Errorf("own data alone: %+v, want the banks ranked", all)
	}
	if all := RankWithPublished([]string{"Ours"}, banks[:1]); len(all) != 0 {
		t.Errorf("one bank on own data: %+v, want nothing to compare", all)
	}
}
