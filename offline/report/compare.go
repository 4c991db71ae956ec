package report

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline/bench"
)

// comparison is several methods on the data sets that all of them have.
type comparison struct {
	Title     string
	Methods   []string
	Datasets  []string    // that count
	Left      []string    // those that not all methods have
	Scores    [][]float64 // accuracy, a row per data set
	Ranks     []float64   // means
	Statistic float64     // Friedman's, as P and CD where there are two data sets and methods
	P, CD     float64
}

// method is one column of a comparison.
type method struct {
	name  string
	score func(dataset string) (float64, bool)
}

// compare ranks methods. It is nil where there is nothing to compare.
func compare(title string, datasets []string, methods []method) *comparison {
	c := &comparison{Title: title}
	for _, m := range methods {
		c.Methods = append(c.Methods, m.name)
	}
	for _, d := range datasets {
		var row []float64
		for _, m := range methods {
			if v, ok := m.score(d); ok {
				row = append(row, v)
			}
		}
		if len(row) < len(methods) {
			c.Left = append(c.Left, d)
			continue
		}
		c.Datasets, c.Scores = append(c.Datasets, d), append(c.Scores, row)
	}
	if len(methods) < 2 || len(c.Datasets) == 0 {
		return nil
	}
	c.Ranks = averageRanks(c.Scores)
	if len(c.Datasets) > 1 {
		c.Statistic, c.P = friedman(c.Scores)
		c.CD = criticalDifference(len(methods), len(c.Datasets))
	}
	return c
}

// of is a model of the section as a method.
func (s *section) of(model, name string) method {
	return method{name, func(dataset string) (float64, bool) {
		e := s.entries[[2]string{dataset, model}]
		if e == nil {
			return 0, false
		}
		return published(e.Accuracy), true
	}}
}

// published rounds as published figures are, so that what is equal there is
// equal here.
func published(accuracy float64) float64 { return math.Round(accuracy*1000) / 1000 }

// comparisons are those of one protocol's models: all of them, and the
// reservoirs alone where that lets more data sets count.
func (s *section) comparisons() []*comparison {
	pick := func(title string, keep func(string) bool) *comparison {
		var methods []method
		for _, m := range s.Models {
			if keep(m) {
				methods = append(methods, s.of(m, displayName(m)))
			}
		}
		return compare(title, s.Datasets, methods)
	}
	all := pick("All models", func(string) bool { return true })
	reservoirs := pick("Reservoirs of the paper", func(m string) bool { return slices.Contains(bench.PaperModels, m) })
	var found []*comparison
	if reservoirs != nil && (all == nil || len(reservoirs.Datasets) > len(all.Datasets)) {
		found = append(found, reservoirs)
	}
	if all != nil {
		found = append(found, all)
	}
	return found
}

// acrossProtocols compares our Euler State Networks with published figures.
func (r *Report) acrossProtocols() *comparison {
	var methods []method
	var datasets []string
	for _, s := range r.sections {
		for _, m := range []string{"eusn", bench.BankModel} {
			if slices.Contains(s.Models, m) {
				methods = append(methods, s.of(m, (&entry{Cell: bench.Cell{Model: m}, section: s}).classifier()))
				datasets = append(datasets, s.Datasets...)
			}
		}
	}
	if len(methods) == 0 {
		return nil
	}
	slices.Sort(datasets)
	methods = append(methods, method{"paper's EuSN", paperScore})
	for _, name := range bench.Classifiers {
		methods = append(methods, method{name, func(d string) (float64, bool) { return bench.Archive(d, name) }})
	}
	return compare("Beside published figures", slices.Compact(datasets), methods)
}

// paperScore is the accuracy of the paper's Euler State Network.
func paperScore(dataset string) (float64, bool) {
	p, ok := bench.Paper(dataset, "eusn")
	return p.Accuracy, ok
}
