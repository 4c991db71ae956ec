package compare

import "slices"

// RankWithPublished ranks banks with published classifiers: first over the available
// Sets, with the classifiers that have a figure for each of these sets; then, if
// classifiers were left out, with all classifiers over their common data sets. Other data
// sets are left out: their published figures may be of another split. Without data sets
// of Sets, only the banks are ranked.
func RankWithPublished(datasets []string, banks []Method) (all []*Ranking) {
	var count, others []string
	for _, d := range datasets {
		if slices.Contains(published().Sets, d) {
			count = append(count, d)
		} else {
			others = append(others, d)
		}
	}
	if len(count) == 0 {
		if r := Rank("Banks", others, banks); r != nil {
			all = append(all, r)
		}
		return all
	}
	whole, each := slices.Clone(banks), slices.Clone(banks)
	for _, name := range Classifiers {
		m := Published(name)
		each = append(each, m)
		if !slices.ContainsFunc(count, func(d string) bool { _, ok := m.Accuracy(d); return !ok }) {
			whole = append(whole, m)
		}
	}
	add := func(title string, methods []Method) {
		if r := Rank(title, count, methods); r != nil {
			r.Missing = append(r.Missing, others...)
			all = append(all, r)
		}
	}
	add("Classifiers with a figure for every data set", whole)
	if len(whole) < len(each) {
		add("All classifiers", each)
	}
	return all
}

// Differences compares the first n methods of a ranking, the banks, with all following
// methods.
func (r *Ranking) Differences(n int) (all []Difference) {
	for i := range min(n, len(r.Methods)) {
		for j := i + 1; j < len(r.Methods); j++ {
			all = append(all, r.Difference(i, j))
		}
	}
	return all
}

// promised are the least means over Sets, ten draws each, that banks must reach.
var promised = map[string]float64{"euler": .878, "large": .895, "standard": .893, "small": .887, "tiny": .880}

// Promised returns the mean accuracy over Sets that a bank must reach, by its name; false
// if none is promised.
func Promised(bank string) (float64, bool) {
	p, ok := promised[bank]
	return p, ok
}
