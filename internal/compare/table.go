package compare

import "slices"

// BesidePublished ranks banks beside published classifiers: first over as many of
// Sets as there are, with the classifiers that have a figure for each of these; then,
// if that left classifiers out, with all of them over the data sets that they have.
// Data sets that are not of Sets are left out: what is published of them may be of
// another split. Where there is none of Sets, the banks alone are ranked.
func BesidePublished(datasets []string, banks []Method) (all []*Ranking) {
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
			r.Left = append(r.Left, others...)
			all = append(all, r)
		}
	}
	add("Classifiers with a figure for every data set", whole)
	if len(whole) < len(each) {
		add("All classifiers", each)
	}
	return all
}

// Differences are those of the first n methods of a ranking, the banks, against all
// that come after each.
func (r *Ranking) Differences(n int) (all []Difference) {
	for i := range min(n, len(r.Methods)) {
		for j := i + 1; j < len(r.Methods); j++ {
			all = append(all, r.Difference(i, j))
		}
	}
	return all
}

// promised are the least means over Sets, ten draws each, that banks are to reach.
var promised = map[string]float64{"euler": .878, "large": .895, "standard": .893, "small": .887, "tiny": .880}

// Promised is the mean accuracy over Sets that a bank is to reach at least, by its
// name; false where none is promised.
func Promised(bank string) (float64, bool) {
	p, ok := promised[bank]
	return p, ok
}
